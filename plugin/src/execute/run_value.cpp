#include "execute/run_value.hpp"

#include <exception>
#include <string>

#include "runtime/session.hpp"

namespace ebbtide::plugin {

void TorchStorages::refused(const char* transition) noexcept try {
  if (const Session* const session = Session::current())
    session->debug(std::string("a value is kept, for this is out of order: ") + transition);
} catch (const std::exception&) {  // the value is kept all the same
}

}  // namespace ebbtide::plugin
