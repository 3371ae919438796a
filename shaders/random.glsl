// Counter-based random numbers (PCG3D, Jarzynski and Olano 2020) and the first two Sobol dimensions.

float unit_float(uint bits) {
    return float(bits >> 8u) * (1.0 / 16777216.0);  // 24 bits: exact, and never 1
}

uint random_bits(uint index, uint counter, uint seed) {
    uvec3 v = uvec3(index, counter, seed) * 1664525u + 1013904223u;
    v.x += v.y * v.z; v.y += v.z * v.x; v.z += v.x * v.y;
    v ^= v >> 16u;
    v.x += v.y * v.z; v.y += v.z * v.x; v.z += v.x * v.y;
    return v.x;
}

vec2 sobol2(uint index) {
    uint y = 0u;
    uint direction = 0x80000000u;
    for (uint rest = index; rest != 0u; rest >>= 1u) {
        if ((rest & 1u) != 0u) y ^= direction;
        direction ^= direction >> 1u;
    }
    return vec2(unit_float(bitfieldReverse(index)), unit_float(y));
}
