// A multiple of a quantum as a 64-bit integer in two words, the low one first; rounded where value has lower bits.
// value: a normal float. exponent: that of its last bit less the quantum's, at most 39.
ivec2 dressi_fixed_point(float value, int exponent) {
    uint mantissa = uint(floatBitsToInt(value) & 0x7fffff | 0x800000);
    int lost = clamp(-exponent, 1, 25);
    uint rounded = mantissa + (1u << (lost - 1)) >> lost;
    uint low = exponent < 0 ? rounded : exponent < 32 ? mantissa << (exponent & 31) : 0u;
    uint high = (mantissa << 7) >> clamp(39 - exponent, 0, 31);
    if (value < 0.0) {
        low = ~low + 1u;
        high = ~high + uint(low == 0u);
    }
    return ivec2(low, high);
}

// The exponent of the last bit of a float.
int dressi_last_bit(float value) {
    return (floatBitsToInt(value) >> 23 & 255) - 150;
}

// The accumulators, dressi_totals, are described in accumulators.py. Their layout is defined before this file: DRESSI_BITS (0
// without a bound), WIDTH, SLOTS, FAR, COMPONENTS, NUMBERS (components in the buffer) and LOWEST.

// A slot is a 64-bit integer, or two 32-bit ones where devices have no atomics of 64 bits.
#ifdef DRESSI_LONG
void dressi_add(int slot, ivec2 words) { atomicAdd(dressi_totals[slot], packInt2x32(words)); }
void dressi_mark(int slot, ivec2 words) { atomicOr(dressi_totals[slot], packInt2x32(words)); }
ivec2 dressi_read(int slot) { return unpackInt2x32(dressi_totals[slot]); }
void dressi_clear(int slot) { dressi_totals[slot] = 0; }
#else
void dressi_add(int slot, ivec2 words) {
    uint before = words.x == 0 ? 0u : uint(atomicAdd(dressi_totals[2 * slot], words.x));
    int high = words.y + int(before + uint(words.x) < before);
    if (high != 0) atomicAdd(dressi_totals[2 * slot + 1], high);
}
void dressi_mark(int slot, ivec2 words) {
    atomicOr(dressi_totals[2 * slot], words.x);
    if (words.y != 0) atomicOr(dressi_totals[2 * slot + 1], words.y);
}
ivec2 dressi_read(int slot) { return ivec2(dressi_totals[2 * slot], dressi_totals[2 * slot + 1]); }
void dressi_clear(int slot) {
    dressi_totals[2 * slot] = 0;
    dressi_totals[2 * slot + 1] = 0;
}
#endif

// What is in a slot, which is zero then.
ivec2 dressi_take(int slot) {
    ivec2 words = dressi_read(slot);
    dressi_clear(slot);
    return words;
}

#define DRESSI_INFINITE 0x7f800000
#define DRESSI_PLUS 1
#define DRESSI_MINUS 2

#if DRESSI_FAR > 0
// The slot of the flags of a cell, from the number of its first component, or of any.
int dressi_flags(int number) { return DRESSI_NUMBERS * (DRESSI_SLOTS + DRESSI_FAR) + number / DRESSI_COMPONENTS; }

// The slot of a component beyond its near ones.
int dressi_far_slot(int number, int slot) {
    return DRESSI_NUMBERS * DRESSI_SLOTS + DRESSI_FAR * number + slot - DRESSI_SLOTS;
}
#endif

// Adds a value to a component, by its number in the buffer. One beyond the bound, or beyond the near slots where there are no
// far ones, is clamped and sets dressi_saturated; NaN sets it then and adds nothing.
#if DRESSI_BITS > 0
void dressi_put(int number, float value, float bound) {
    int most = floatBitsToInt(bound);
    float limit = bound;
#else
void dressi_put(int number, float value) {
    int most = DRESSI_MOST;
    float limit = DRESSI_LIMIT;
#endif
    // Bits of positive floats have the order of the floats, and those of NaN come last. Comparisons of floats would not see NaN
    // where a driver takes it that there are none.
    int size = floatBitsToInt(value) & 0x7fffffff;
    if (size < 0x800000) return;
#if DRESSI_FAR == 0
    if (size > most) {
        atomicMax(dressi_saturated, 1);
        if (size > DRESSI_INFINITE) return;
        value = clamp(value, -limit, limit);
    }
#endif
#if DRESSI_BITS > 0
    int slot = number;
    int last = dressi_last_bit(value) - dressi_last_bit(bound) + DRESSI_BITS - 24;
#else
    int last = dressi_last_bit(value) - DRESSI_LOWEST, skipped = DRESSI_SKIPPED(last);
    int slot = DRESSI_SLOTS * number + skipped;
    last -= DRESSI_WIDTH * skipped;
#endif
#if DRESSI_FAR > 0
    // The loop runs once or never: CPU drivers skip nothing inside of a branch.
    for (bool far = size > most; far; far = false) {
        int sort = 0;
        last = dressi_last_bit(value) - DRESSI_LOWEST;
        slot = dressi_far_slot(number, last / DRESSI_WIDTH);
        last %= DRESSI_WIDTH;
        if (size >= DRESSI_INFINITE) {
            sort = size > DRESSI_INFINITE ? DRESSI_PLUS | DRESSI_MINUS : floatBitsToInt(value) > 0 ? DRESSI_PLUS : DRESSI_MINUS;
            sort <<= 2 * (number % DRESSI_COMPONENTS);
            slot = 0;
            last = -64;  // adds 0
        }
        dressi_mark(dressi_flags(number), ivec2(1, sort));
    }
#endif
    dressi_add(slot, dressi_fixed_point(value, last));
}

#if DRESSI_FAR > 0
#define DRESSI_DIGIT 24  // bits of the digits in which all slots are added up
#define DRESSI_DIGITS ((DRESSI_WIDTH * (DRESSI_SLOTS + DRESSI_FAR) + 64 + DRESSI_DIGIT - 1) / DRESSI_DIGIT)
#define DRESSI_MASK ((1 << DRESSI_DIGIT) - 1)

// The sum of all slots of a component, given which infinite values it got. It runs seldom, so it is written for length and not
// for speed: one integer of DRESSI_DIGITS digits, to which each slot adds its 64 bits with their sign.
float dressi_far_total(int number, int sort) {
    int digits[DRESSI_DIGITS];
    int carry = 0, top = 0;
    for (int k = 0; k < DRESSI_DIGITS; ++k) digits[k] = 0;
    for (int s = 0; s < DRESSI_SLOTS + DRESSI_FAR; ++s) {
        ivec2 words = dressi_take(s < DRESSI_SLOTS ? DRESSI_SLOTS * number + s : dressi_far_slot(number, s));
        for (int k = DRESSI_WIDTH * s / DRESSI_DIGIT; k < DRESSI_DIGITS; ++k) {
            int bit = DRESSI_DIGIT * k - DRESSI_WIDTH * s;
            int piece = bit < 0 ? words.x << -bit : bit >= 32 ? words.y >> min(bit - 32, 31)
                : int(uint(words.x) >> bit | (bit > 0 ? uint(words.y) << (32 - bit) : 0u));
            digits[k] += piece & DRESSI_MASK;
        }
    }
    for (int k = 0; k < DRESSI_DIGITS; ++k) {
        digits[k] += carry;
        carry = digits[k] >> DRESSI_DIGIT;
        digits[k] &= DRESSI_MASK;
    }
    bool negative = digits[DRESSI_DIGITS - 1] >> (DRESSI_DIGIT - 1) != 0;
    carry = int(negative);
    for (int k = 0; k < DRESSI_DIGITS; ++k) {
        digits[k] = (negative ? ~digits[k] & DRESSI_MASK : digits[k]) + carry;
        carry = digits[k] >> DRESSI_DIGIT;
        digits[k] &= DRESSI_MASK;
        if (digits[k] != 0) top = k;
    }
    precise float sum = 0.0, unit = 1.0;
    for (int k = top; k >= max(top - 2, 0); --k) {
        sum += float(digits[k]) * unit;
        unit *= 5.9604644775390625e-08;  // 2^-DRESSI_DIGIT
    }
    // In two steps: a factor may lie beyond the floats while the product does not.
    int power = DRESSI_DIGIT * top + DRESSI_LOWEST, part = power >> 1;
    sum *= intBitsToFloat(part + 127 << 23);
    sum *= intBitsToFloat(power - part + 127 << 23);
    if (sort == (DRESSI_PLUS | DRESSI_MINUS)) return intBitsToFloat(0x7fc00000);
    if (sort != 0) return intBitsToFloat(sort == DRESSI_PLUS ? DRESSI_INFINITE : 0xff800000);
    return negative ? -sum : sum;
}

// For each component of a cell the sum of all its slots, if anything is in far ones. It leaves zeros behind, so that what is found
// in the near ones then can be added. The loop runs once or never, as above.
void dressi_far_totals(int number, out float far[DRESSI_COMPONENTS]) {
    for (int k = 0; k < DRESSI_COMPONENTS; ++k) far[k] = 0.0;
    for (bool there = dressi_read(dressi_flags(number)).x != 0; there; there = false) {
        int sorts = dressi_take(dressi_flags(number)).y;
        for (int k = 0; k < DRESSI_COMPONENTS; ++k)
            far[k] = dressi_far_total(number + k, sorts >> 2 * k & (DRESSI_PLUS | DRESSI_MINUS));
    }
}
#endif
