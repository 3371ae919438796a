// Modified Bessel functions of the first kind by the polynomials of Abramowitz and Stegun (9.8.1 to 9.8.4), for x >= 0.

float bessel_near0(float x) {
    float t = min(x, 3.75) / 3.75;
    t *= t;
    return 1.0 + t * (3.5156229 + t * (3.0899424 + t * (1.2067492 + t * (0.2659732 + t * (0.0360768 + t * 0.0045813)))));
}

float bessel_far0(float x) {
    float u = 3.75 / max(x, 3.75);
    return 0.39894228 + u * (0.01328592 + u * (0.00225319 + u * (-0.00157565 + u * (0.00916281 + u * (-0.02057706 + u *
        (0.02635537 + u * (-0.01647633 + u * 0.00392377)))))));
}

// log(exp(-x) I0(x))
float bessel_log(float x) {
    float nearby = log(bessel_near0(x)) - x, far = log(bessel_far0(x)) - 0.5 * log(max(x, 3.75));
    return x < 3.75 ? nearby : far;
}

// I1(x) / I0(x)
float bessel_ratio(float x) {
    float t = min(x, 3.75) / 3.75, u = 3.75 / max(x, 3.75);
    t *= t;
    float nearby = x * (0.5 + t * (0.87890594 + t * (0.51498869 + t * (0.15084934 + t * (0.02658733 + t * (0.00301532 +
        t * 0.00032411))))));
    float far = 0.39894228 + u * (-0.03988024 + u * (-0.00362018 + u * (0.00163801 + u * (-0.01031555 + u * (0.02282967 +
        u * (-0.02895312 + u * (0.01787654 + u * -0.00420059)))))));
    return x < 3.75 ? nearby / bessel_near0(x) : far / bessel_far0(x);
}
