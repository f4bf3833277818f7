#include "execute/run_value.hpp"

#include <exception>
#include <string>

#include "runtime/output/run_lines.hpp"

namespace ebbtide::plugin {

void TorchStorages::refused(const char* transition) noexcept try {
  if (const RunLines* const lines = RunLines::current())
    lines->debug(std::string("a value is kept, for this is out of order: ") + transition);
} catch (const std::exception&) {  // the value is kept all the same
}

}  // namespace ebbtide::plugin
