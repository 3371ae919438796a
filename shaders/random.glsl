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
    // The second dimension is Pascal's triangle modulo 2 times the digits: bit j of the product is the sum of the
    // bits i of the index whose ones contain those of j. The five factors add the bits that differ in one place.
    uint x = bitfieldReverse(index), y = x;
    y ^= (y << 1u) & 0xAAAAAAAAu;
    y ^= (y << 2u) & 0xCCCCCCCCu;
    y ^= (y << 4u) & 0xF0F0F0F0u;
    y ^= (y << 8u) & 0xFF00FF00u;
    y ^= (y << 16u) & 0xFFFF0000u;
    return vec2(unit_float(x), unit_float(y));
}
