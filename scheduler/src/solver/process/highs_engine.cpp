// HiGHS through the C interface of libhighs.so.1, without its headers.
#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "solver/highs_message.hpp"
#include "solver/linear_program.hpp"
#include "solver/process/solver_engine.hpp"

namespace ebbtide::scheduler {
namespace {

// Of the C interface (highs_c_api.h, HiGHS 1.12; its integers have 32 bits in this library).
constexpr int kRowWise = 2, kMinimize = 1;
constexpr int kStatusOptimal = 7, kStatusInfeasible = 8, kStatusTimeLimit = 13;
constexpr int kStatusError = -1;
constexpr int kMipImprovingSolution = 4;
constexpr int kSolutionFeasible = 2;

class HighsEngine : public SolverEngine {
 public:
  explicit HighsEngine(const std::string& library)
      : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    find(create_, "Highs_create");
    find(run_, "Highs_run");
    find(pass_, "Highs_passMip");
    find(set_bool_, "Highs_setBoolOptionValue");
    find(set_int_, "Highs_setIntOptionValue");
    find(set_double_, "Highs_setDoubleOptionValue");
    find(set_solution_, "Highs_setSolution");
    find(set_callback_, "Highs_setCallback");
    find(start_callback_, "Highs_startCallback");
    find(callback_item_, "Highs_getCallbackDataOutItem");
    find(model_status_, "Highs_getModelStatus");
    find(int_info_, "Highs_getIntInfoValue");
    find(double_info_, "Highs_getDoubleInfoValue");
    find(solution_, "Highs_getSolution");
    highs_ = create_();  // never destroyed: the process ends with its solve
  }

  std::string solve(const std::string& model, const std::string& parameters,
                    const OnIncumbent& on_incumbent) override {
    program_ = LinearProgram::fromBytes(model);
    on_incumbent_ = on_incumbent;
    for (const std::int32_t whole : program_.integer) whole_ = whole_ || whole != 0;
    pass();
    set(HighsParameters::fromBytes(parameters));
    run_(highs_);
    return answer().toBytes();
  }

  // It stops by itself when its time is over; a planner that wants an end before kills it.
  void stop() override {}

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(dlerror());
  }

  void pass() {
    const auto count = [](std::size_t size) { return static_cast<std::int32_t>(size); };
    set_bool_(highs_, "output_flag", 0);
    const int status =
        pass_(highs_, count(program_.columns()), count(program_.rows()),
              count(program_.column.size()), kRowWise, kMinimize, 0.0, program_.cost.data(),
              program_.lower.data(), program_.upper.data(), program_.row_lower.data(),
              program_.row_upper.data(), program_.row_start.data(), program_.column.data(),
              program_.coefficient.data(), whole_ ? program_.integer.data() : nullptr);
    if (status == kStatusError) throw std::runtime_error("HiGHS refuses the linear program");
  }

  void set(const HighsParameters& parameters) {
    set_double_(highs_, "time_limit", parameters.seconds);
    set_int_(highs_, "threads", parameters.threads);
    set_int_(highs_, "random_seed", parameters.seed);
    set_int_(highs_, "mip_max_nodes", parameters.nodes);
    set_double_(highs_, "mip_rel_gap", 0.0);
    if (!whole_) return;
    set_callback_(highs_, &HighsEngine::improved, this);
    start_callback_(highs_, kMipImprovingSolution);
    if (parameters.start.size() == program_.columns()) {
      set_solution_(highs_, parameters.start.data(), nullptr, nullptr, nullptr);
    }
  }

  static void improved(int, const char*, const void* out, void*, void* self) {
    const HighsEngine& engine = *static_cast<const HighsEngine*>(self);
    const auto item = [&](const char* name) {
      return static_cast<const double*>(engine.callback_item_(out, name));
    };
    const double* values = item("mip_solution");
    const double* objective = item("objective_function_value");
    if (values == nullptr || objective == nullptr) return;
    HighsSolution solution;
    solution.objective = *objective;
    solution.values.assign(values, values + engine.program_.columns());
    engine.on_incumbent_(solution.toBytes());
  }

  HighsSolution answer() {
    HighsSolution solution;
    const int status = model_status_(highs_);
    if (status == kStatusInfeasible) solution.status = HighsSolution::Status::kInfeasible;
    if (status == kStatusOptimal) solution.status = HighsSolution::Status::kOptimal;
    int primal = 0;
    int_info_(highs_, "primal_solution_status", &primal);
    double_info_(highs_, "objective_function_value", &solution.objective);
    solution.bound = solution.objective;
    if (whole_) double_info_(highs_, "mip_dual_bound", &solution.bound);
    if (status != kStatusOptimal && !(status == kStatusTimeLimit && primal == kSolutionFeasible)) {
      return solution;
    }
    solution.values.resize(program_.columns());
    std::vector<double> column_duals(program_.columns()), rows(program_.rows());
    solution.row_duals.resize(program_.rows());
    solution_(highs_, solution.values.data(), column_duals.data(), rows.data(),
              solution.row_duals.data());
    if (whole_ || status != kStatusOptimal) solution.row_duals.clear();
    return solution;
  }

  void* library_;
  void* highs_ = nullptr;
  LinearProgram program_;
  OnIncumbent on_incumbent_;
  bool whole_ = false;  // some column is integer

  using Doubles = const double*;
  using Integers = const std::int32_t*;
  using Callback = void(int, const char*, const void*, void*, void*);
  void* (*create_)() = nullptr;
  int (*run_)(void*) = nullptr;
  int (*pass_)(void*, int, int, int, int, int, double, Doubles, Doubles, Doubles, Doubles, Doubles,
               Integers, Integers, Doubles, Integers) = nullptr;
  int (*set_bool_)(void*, const char*, int) = nullptr;
  int (*set_int_)(void*, const char*, int) = nullptr;
  int (*set_double_)(void*, const char*, double) = nullptr;
  int (*set_solution_)(void*, Doubles, Doubles, Doubles, Doubles) = nullptr;
  int (*set_callback_)(void*, Callback*, void*) = nullptr;
  int (*start_callback_)(void*, int) = nullptr;
  const void* (*callback_item_)(const void*, const char*) = nullptr;
  int (*model_status_)(const void*) = nullptr;
  int (*int_info_)(const void*, const char*, int*) = nullptr;
  int (*double_info_)(const void*, const char*, double*) = nullptr;
  int (*solution_)(const void*, double*, double*, double*, double*) = nullptr;
};

}  // namespace

std::unique_ptr<SolverEngine> makeHighsEngine(const std::string& library) {
  return std::make_unique<HighsEngine>(library);
}

}  // namespace ebbtide::scheduler
