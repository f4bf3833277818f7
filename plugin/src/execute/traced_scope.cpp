#include "execute/traced_scope.hpp"

#include <utility>

#include "base/thread_scopes.hpp"
#include "runtime/run/run_life.hpp"

#ifdef EBBTIDE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace ebbtide::plugin {
namespace {

const char* nameOf(TracedSpan::Kind work) noexcept {
  switch (work) {
    case TracedSpan::Kind::kRecompute:
      return "ebbtide::recompute";
    case TracedSpan::Kind::kSpill:
      return "ebbtide::spill";
    case TracedSpan::Kind::kRestore:
      return "ebbtide::restore";
    case TracedSpan::Kind::kEncode:
      return "ebbtide::encode";
    case TracedSpan::Kind::kDecode:
      return "ebbtide::decode";
    case TracedSpan::Kind::kAhead:
      return "ebbtide::ahead";
    default:
      return "ebbtide";
  }
}

// Without a tool that was injected each call is a test of a pointer.
#ifdef EBBTIDE_NVTX
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t ours = nvtxDomainCreateA("ebbtide");
  return ours;
}

void pushRange(const char* name) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

void popRange() noexcept {
  nvtxDomainRangePop(domain());
}
#else
void pushRange(const char*) noexcept {}
void popRange() noexcept {}
#endif

const TracedScope*& innermost() noexcept {
  thread_local const TracedScope* scope = nullptr;
  return scope;
}

}  // namespace

TracedScope::TracedScope(RunTrace& trace, TracedSpan::Kind work, const char* op, std::int64_t bytes)
    : trace_(trace), outer_(std::exchange(innermost(), this)) {
  span_ = {.kind = work, .op = op, .number = bytes};
  const char* const name = nameOf(work);
  if (event_.isActive()) {
    const QuietScope quiet;  // it is no op of the program
    event_.before(name);
  }
  pushRange(name);
  if (!trace_.on() || RunLife::inChild()) return;
  trace_.sampleMemory(true);
  span_.thread = threadNumber();
  span_.begin_ns = steadyNanoseconds();
}

TracedScope::~TracedScope() {
  popRange();
  innermost() = outer_;
  if (span_.begin_ns == 0) return;
  span_.end_ns = steadyNanoseconds();
  trace_.add(span_);
  trace_.sampleMemory(true);
}

WorkInHand TracedScope::current() noexcept {
  const TracedScope* const scope = innermost();
  if (scope == nullptr) return {};
  const char* const kind = nameOf(scope->span_.kind);
  return {.what = scope->span_.op != nullptr ? scope->span_.op : kind, .kind = kind};
}

}  // namespace ebbtide::plugin
