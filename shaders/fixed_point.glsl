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
