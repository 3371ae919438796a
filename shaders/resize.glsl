// Weights of F.resize along one axis: p is a texel of the resized image, q of the original.
// kind: 1 bilinear, 2 area, 3 cubic. Texel centres are at i + 0.5.

float catmull_rom(float d) {
    d = abs(d);
    return d < 1.0 ? (1.5 * d - 2.5) * d * d + 1.0 : d < 2.0 ? ((2.5 - 0.5 * d) * d - 4.0) * d + 2.0 : 0.0;
}

float resize_weight(int p, int q, int n_in, int n_out, int kind) {
    if (kind == 1) {
        // The centre of p, in whole numbers of 1 / unit: a float would lose it in large images.
        int unit = 2 * n_out;
        int centre = clamp((2 * p + 1) * n_in - n_out, 0, (n_in - 1) * unit);
        return float(max(unit - abs(centre - q * unit), 0)) / float(unit);
    }
    if (kind == 3) {
        // Texels beyond the edge are the outermost ones, which then count several times.
        int unit = 2 * n_out, centre = (2 * p + 1) * n_in - n_out, sum = centre + unit;
        int first = sum / unit - 2;  // floor(centre / unit) - 1
        float weight = 0.0;
        for (int t = first; t < first + 4; ++t)
            if (clamp(t, 0, n_in - 1) == q) weight += catmull_rom(float(centre - t * unit) / float(unit));
        return weight;
    }
    int overlap = min((p + 1) * n_in, (q + 1) * n_out) - max(p * n_in, q * n_out);
    return float(max(overlap, 0)) / float(n_in);
}

// First and last q that p may read. One texel to spare on both sides: weights there are 0.
ivec2 resize_range(int p, int n_in, int n_out, int kind) {
    int spare = kind == 1 ? 1 : kind == 3 ? 2 : 0;
    return clamp(ivec2((p * n_in) / n_out - spare, ((p + 1) * n_in) / n_out + spare), 0, n_in - 1);
}

// First and last p that may read q. A texel reaches as far to each side of its centre: bilinear one, cubic two.
ivec2 resize_users(int q, int n_in, int n_out, int kind) {
    int reach = kind == 1 ? 1 : kind == 3 ? 2 : 0;
    return clamp(ivec2(((q - reach) * n_out) / n_in - 1, ((q + 1 + reach) * n_out) / n_in + 1), 0, n_out - 1);
}
