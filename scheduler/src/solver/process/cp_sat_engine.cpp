// CP-SAT through the C interface of libortools.so.9, without its headers and without protobuf.
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "solver/process/solver_engine.hpp"

// Used by reference alone.
namespace operations_research::sat {
class CpSolverResponse;
class Model;
}  // namespace operations_research::sat

namespace ebbtide::scheduler {
namespace {

using Response = operations_research::sat::CpSolverResponse;
using Model = operations_research::sat::Model;

class CpSatEngine : public SolverEngine {
 public:
  explicit CpSatEngine(const std::string& library)
      : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    find(new_environment_, "SolveCpNewEnv");
    find(destroy_environment_, "SolveCpDestroyEnv");
    find(stop_, "SolveCpStopSearch");
    find(solve_, "SolveCpInterruptible");
    environment_ = new_environment_();
  }
  // The library stays: it has threads and statics of its own.
  ~CpSatEngine() override { destroy_environment_(environment_); }

  std::string solve(const std::string& model, const std::string& parameters,
                    const OnIncumbent& on_incumbent) override {
    observe(on_incumbent);
    void* bytes = nullptr;  // malloc'ed
    int size = 0;
    solve_(environment_, model.data(), static_cast<int>(model.size()), parameters.data(),
           static_cast<int>(parameters.size()), &bytes, &size);
    std::string response(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
    std::free(bytes);
    return response;
  }

  void stop() override { stop_(environment_); }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(dlerror());
  }

  // The C interface has no callback. In this version an environment begins with the Model that it
  // solves, and these are the C++ functions that add an observer to one (SolverWheel pins the
  // version).
  void observe(const OnIncumbent& on_incumbent) {
    std::function<void(Model*)> (*observer)(const std::function<void(const Response&)>&);
    std::string (*serialize)(const Response*);
    find(observer,
         "_ZN19operations_research3sat27NewFeasibleSolutionObserver"
         "ERKSt8functionIFvRKNS0_16CpSolverResponseEEE");
    find(serialize, "_ZNK6google8protobuf11MessageLite17SerializeAsStringB5cxx11Ev");
    observer([serialize, on_incumbent](const Response& response) {
      on_incumbent(serialize(&response));
    })(static_cast<Model*>(environment_));
  }

  void* library_;
  void* environment_ = nullptr;
  void* (*new_environment_)() = nullptr;
  void (*destroy_environment_)(void*) = nullptr;
  void (*stop_)(void*) = nullptr;
  void (*solve_)(void*, const void*, int, const void*, int, void**, int*) = nullptr;
};

}  // namespace

std::unique_ptr<SolverEngine> makeCpSatEngine(const std::string& library) {
  return std::make_unique<CpSatEngine>(library);
}

}  // namespace ebbtide::scheduler
