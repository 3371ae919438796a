// Weights of F.resize along one axis: p is a texel of the resized image, q of the original.
// kind: 1 bilinear, 2 area. Texel centres are at i + 0.5.

float resize_weight(int p, int q, int n_in, int n_out, int kind) {
    if (kind == 1) {
        // The centre of p, in whole numbers of 1 / unit: a float would lose it in large images.
        int unit = 2 * n_out;
        int centre = clamp((2 * p + 1) * n_in - n_out, 0, (n_in - 1) * unit);
        return float(max(unit - abs(centre - q * unit), 0)) / float(unit);
    }
    int overlap = min((p + 1) * n_in, (q + 1) * n_out) - max(p * n_in, q * n_out);
    return float(max(overlap, 0)) / float(n_in);
}

// First and last q that p may read. One texel to spare on both sides: weights there are 0.
ivec2 resize_range(int p, int n_in, int n_out, int kind) {
    int spare = kind == 1 ? 1 : 0;
    return clamp(ivec2((p * n_in) / n_out - spare, ((p + 1) * n_in) / n_out + spare), 0, n_in - 1);
}

// First and last p that may read q. For bilinear a texel reaches one whole texel to each side of its centre.
ivec2 resize_users(int q, int n_in, int n_out, int kind) {
    int reach = kind == 1 ? 1 : 0;
    return clamp(ivec2(((q - reach) * n_out) / n_in - 1, ((q + 1 + reach) * n_out) / n_in + 1), 0, n_out - 1);
}
