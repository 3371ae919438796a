// The energies of meshes.py for Ceres, with its own automatic derivatives.
//
//     ceres_meshes PROBLEM ENOUGH LONGEST
//
// PROBLEM is what meshes.py writes: words "kind vertices edges markers", then positions, edges, marked vertices and
// targets. Solves by Levenberg-Marquardt and sparse Cholesky factorisations on one thread until the cost is at most ENOUGH or
// LONGEST CPU seconds have passed. Prints cost and CPU seconds of each step.

#include <ceres/ceres.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace {

using ceres::AutoDiffCostFunction;

double seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

struct Vec {
  const double* at;
  double operator[](int k) const { return at[k]; }
};

struct Near {  // w (x - a)
  Vec a;
  double w;
  template <typename T>
  bool operator()(const T* x, T* r) const {
    for (int k = 0; k < 3; ++k) r[k] = w * (x[k] - a[k]);
    return true;
  }
};

struct Rigid {  // 2 (xi - xj - Rz Ry Rx (ui - uj))
  Vec ui, uj;
  template <typename T>
  bool operator()(const T* xi, const T* xj, const T* angles, T* r) const {
    using std::cos;
    using std::sin;
    T v[3];
    for (int k = 0; k < 3; ++k) v[k] = T(ui[k] - uj[k]);
    for (int axis = 0; axis < 3; ++axis) {
      const T c = cos(angles[axis]), s = sin(angles[axis]);
      T &a = v[(axis + 1) % 3], &b = v[(axis + 2) % 3];
      const T turned = c * a - s * b;
      b = s * a + c * b;
      a = turned;
    }
    for (int k = 0; k < 3; ++k) r[k] = 2.0 * (xi[k] - xj[k] - v[k]);
    return true;
  }
};

struct Affine {  // sqrt(12) (xj - xi - F (uj - ui)), F by rows
  Vec ui, uj;
  template <typename T>
  bool operator()(const T* xi, const T* xj, const T* f, T* r) const {
    for (int k = 0; k < 3; ++k) {
      T moved = T(0.0);
      for (int c = 0; c < 3; ++c) moved += f[3 * k + c] * (uj[c] - ui[c]);
      r[k] = std::sqrt(12.0) * (xj[k] - xi[k] - moved);
    }
    return true;
  }
};

struct Rotation {  // sqrt(5) (F^T F - 1), its upper half
  template <typename T>
  bool operator()(const T* f, T* r) const {
    const int pairs[6][2] = {{0, 1}, {0, 2}, {1, 2}, {0, 0}, {1, 1}, {2, 2}};
    for (int k = 0; k < 6; ++k) {
      const int i = pairs[k][0], j = pairs[k][1];
      r[k] = std::sqrt(5.0) * (f[i] * f[j] + f[3 + i] * f[3 + j] + f[6 + i] * f[6 + j] - (i == j ? 1.0 : 0.0));
    }
    return true;
  }
};

struct Smooth {  // sqrt(w) (xj - xi), w from the angles at xk and xm
  template <typename T>
  static T cotangent(const T* i, const T* j, const T* k) {
    using std::sqrt;
    T u[3], v[3];
    for (int c = 0; c < 3; ++c) u[c] = i[c] - k[c], v[c] = j[c] - k[c];
    T square = T(0.0);
    for (int c = 0; c < 3; ++c) {
      const T n = u[(c + 1) % 3] * v[(c + 2) % 3] - u[(c + 2) % 3] * v[(c + 1) % 3];
      square += n * n;
    }
    if (!(square > 0.0)) square = T(1e-4);
    return (u[0] * v[0] + u[1] * v[1] + u[2] * v[2]) / sqrt(square);
  }
  template <typename T>
  bool operator()(const T* i, const T* j, const T* k, const T* m, T* r) const {
    using std::sqrt;
    T w = 0.5 * (cotangent(i, j, k) + (m ? cotangent(i, j, m) : T(0.0)));
    if (!(w > 0.0)) w = T(1e-4);
    for (int c = 0; c < 3; ++c) r[c] = sqrt(w) * (j[c] - i[c]);
    return true;
  }
  template <typename T>
  bool operator()(const T* i, const T* j, const T* k, T* r) const {
    return (*this)(i, j, k, static_cast<const T*>(nullptr), r);
  }
};

struct Until : ceres::IterationCallback {
  double enough, longest, begun = seconds();
  Until(double enough, double longest) : enough(enough), longest(longest) {}
  ceres::CallbackReturnType operator()(const ceres::IterationSummary& s) override {
    if (s.step_is_successful || s.iteration == 0) std::printf("%.17g %.6f\n", s.cost, seconds() - begun), std::fflush(stdout);
    const bool ends = s.cost <= enough || seconds() - begun > longest;
    return ends ? ceres::SOLVER_TERMINATE_SUCCESSFULLY : ceres::SOLVER_CONTINUE;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "ceres_meshes PROBLEM ENOUGH LONGEST\n"), 2;
  std::ifstream file(argv[1]);
  std::string kind;
  size_t count = 0, edges = 0, markers = 0;
  file >> kind >> count >> edges >> markers;
  const bool smooth = kind == "cotangent_smoothing", frames = kind == "embedded_deformation";
  const int width = smooth ? 4 : 2;
  std::vector<double> rest(3 * count), target(3 * markers);
  std::vector<long> edge(width * edges), marked(markers);
  for (double& v : rest) file >> v;
  for (long& v : edge) file >> v;
  for (long& v : marked) file >> v;
  for (double& v : target) file >> v;
  if (!file) return std::fprintf(stderr, "%s is no problem of meshes.py\n", argv[1]), 2;

  std::vector<double> x = rest, turn;
  const int size = frames ? 9 : 3;
  if (!smooth) turn.assign(size * count, 0.0);
  for (size_t v = 0; frames && v < count; ++v)
    for (int k = 0; k < 9; k += 4) turn[9 * v + k] = 1.0;
  auto at = [&](long v) { return &x[3 * v]; };
  auto still = [&](long v) { return Vec{&rest[3 * v]}; };
  ceres::Problem problem;
  for (size_t m = 0; m < markers; ++m)
    problem.AddResidualBlock(
        new AutoDiffCostFunction<Near, 3, 3>(new Near{{&target[3 * m]}, smooth ? 1.0 : std::sqrt(3.0)}), nullptr,
        at(marked[m]));
  for (size_t e = 0; e < edges; ++e) {
    const long *v = &edge[width * e], i = v[0], j = v[1];
    if (smooth && v[3] >= 0)
      problem.AddResidualBlock(new AutoDiffCostFunction<Smooth, 3, 3, 3, 3, 3>(new Smooth), nullptr, at(i), at(j),
                               at(v[2]), at(v[3]));
    else if (smooth)
      problem.AddResidualBlock(new AutoDiffCostFunction<Smooth, 3, 3, 3, 3>(new Smooth), nullptr, at(i), at(j), at(v[2]));
    else if (frames)
      problem.AddResidualBlock(new AutoDiffCostFunction<Affine, 3, 3, 3, 9>(new Affine{still(i), still(j)}), nullptr,
                               at(i), at(j), &turn[9 * i]);
    else
      problem.AddResidualBlock(new AutoDiffCostFunction<Rigid, 3, 3, 3, 3>(new Rigid{still(i), still(j)}), nullptr,
                               at(i), at(j), &turn[3 * i]);
  }
  for (size_t v = 0; frames && v < count; ++v)
    problem.AddResidualBlock(new AutoDiffCostFunction<Rotation, 6, 9>(new Rotation), nullptr, &turn[9 * v]);

  ceres::Solver::Options options;
  options.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  options.num_threads = 1;
  options.max_num_iterations = 1000;
  options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 0.0;
  options.logging_type = ceres::SILENT;
  Until until(std::atof(argv[2]), std::atof(argv[3]));
  options.callbacks.push_back(&until);
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return 0;
}
