// Edges within the square between the centres of four pixels, from where they cross its sides to where they end. Needs
// face.glsl. Sides: 0 from (0, 0) to (1, 0), 1 from (0, 1) to (1, 1), 2 from (0, 0) to (0, 1), 3 from (1, 0) to (1, 1).

const float CELLS_PARALLEL = 0.02, CELLS_BEYOND = 0.5;

// How far a way from a place within the square, a unit vector, stays within the square that is larger by ``more`` all around.
float cells_within(vec2 start, vec2 way, float more) {
    vec2 ends = vec2(greaterThan(way, vec2(0.0))) * (1.0 + 2.0 * more) - more - start;
    float u = way.x == 0.0 ? 4.0 : ends.x / way.x, v = way.y == 0.0 ? 4.0 : ends.y / way.y;
    return max(min(u, v), 0.0);
}

// place: where each side is crossed, below 0 for not at all.  slope: how the place changes on the way across the square.
// An edge ends where it meets the one that crosses another side; where none does, half way to the other side, from which
// it comes as well.
void cells_segments(vec4 place, vec4 slope, out vec2 start[4], out vec2 end[4]) {
    vec2 way[4];
    bool two = dot(step(0.0, place), vec4(1.0)) == 2.0;
    for (int k = 0; k < 4; ++k) {
        float far = float(k & 1);
        start[k] = end[k] = k < 2 ? vec2(place[k], far) : vec2(far, place[k]);
        way[k] = (1.0 - 2.0 * far) * normalize(k < 2 ? vec2(slope[k], 1.0) : vec2(1.0, slope[k]));
    }
    vec4 most, outside, reach, best = vec4(0.0);
    for (int k = 0; k < 4; ++k) {
        most[k] = cells_within(start[k], way[k], 0.0);
        outside[k] = cells_within(start[k], way[k], CELLS_BEYOND);
    }
    reach = 0.5 * most;
    for (int k = 0; k < 3; ++k) for (int j = k + 1; j < 4; ++j) {
        if (min(place[k], place[j]) < 0.0) continue;
        vec2 to = start[j] - start[k];
        float turn = face_cross(way[k], way[j]), off = face_cross(to, way[k]);
        if (abs(turn) < CELLS_PARALLEL) {
            // Both ends of a straight edge go half of the way, whatever else meets it.
            if (abs(off) >= CELLS_PARALLEL) continue;
            best[k] = best[j] = 3.0;
            reach[k] = 0.5 * most[k]; reach[j] = 0.5 * most[j];
            continue;
        }
        vec2 when = vec2(face_cross(to, way[j]), off) / turn;
        bool within = when.x <= most[k];
        float score = abs(turn) + float(within);
        if (min(when.x, when.y) < 0.0 || !within && !two) continue;
        if (score > best[k]) { best[k] = score; reach[k] = min(when.x, outside[k]); }
        if (score > best[j]) { best[j] = score; reach[j] = min(when.y, outside[j]); }
    }
    for (int k = 0; k < 4; ++k) if (place[k] >= 0.0) end[k] += reach[k] * way[k];
}

// (u, v): what edges leave to the pixels (1, 0) and (0, 1) of the quarter of the square that belongs to the pixel (0, 0).
// The area beyond a polygon is the sum of the triangles that its sides span with the middle of the square.
vec2 cells_taken(vec4 place, vec2 start[4], vec2 end[4]) {
    bool right = place[0] >= 0.0, up = place[2] >= 0.0;
    vec2 taken = 0.25 * vec2(right ? max(0.5 - place[0], 0.0) : 0.0, up ? max(0.5 - place[2], 0.0) : 0.0);
    for (int k = 0; k < 4; ++k) {
        // The pixel lies on the left of an edge from side 0 to 1, or from 3 to 2.
        bool turned = k == 1 && up || k == 3 && right, first = (k == 0 || k == 3) != turned;
        if (place[k] < 0.0 || (k & 1) == 1 && right && up) continue;
        vec2 a = (first ? start[k] : end[k]) - 0.5, b = (first ? end[k] : start[k]) - 0.5;
        for (int c = 0; c < 2; ++c) {
            if (min(a[c], b[c]) >= 0.0 || max(a[c], b[c]) <= -1.0) { a = b; break; }
            vec2 way = (b - a) / (a[c] == b[c] ? 1.0 : b[c] - a[c]);
            a += way * (clamp(a[c], -1.0, 0.0) - a[c]);
            b += way * (clamp(b[c], -1.0, 0.0) - b[c]);
        }
        taken[int(k >= 2 != turned)] += 0.5 * face_cross(a, b);
    }
    return max(taken, 0.0);
}

// What edges leave to the pixel (0, 0) of the quarters of the pixels (1, 0) and (0, 1).
float cells_given(vec4 place, vec2 start[4], vec2 end[4]) {
    float given = 0.0;
    for (int axis = 0; axis < 2; ++axis) {
        vec4 mirrored;
        vec2 from[4], to[4];
        for (int k = 0; k < 4; ++k) {
            bool along = k >> 1 == axis;
            int side = along ? k : k ^ 1;
            mirrored[k] = along && place[side] >= 0.0 ? 1.0 - place[side] : place[side];
            from[k] = start[side]; from[k][axis] = 1.0 - from[k][axis];
            to[k] = end[side]; to[k][axis] = 1.0 - to[k][axis];
        }
        given += cells_taken(mirrored, from, to)[axis];
    }
    return given;
}
