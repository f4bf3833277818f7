#include "request_guard.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ebbtide/metrics/machine_name.hpp"

namespace ebbtide::metrics {
namespace {

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equalIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lowered(x) == lowered(y); });
}

// "[::1]:80" -> "::1", "node7:80" -> "node7"
std::string withoutPort(std::string_view host) {
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.find(':')));
}

struct Address {
  int family = AF_UNSPEC;  // stays so for what is no literal
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  bool operator==(const Address&) const = default;
};

Address parse(const std::string& text) {
  for (const int family : {AF_INET, AF_INET6}) {
    Address address{.family = family};
    if (::inet_pton(family, text.c_str(), address.bytes.data()) == 1) return address;
  }
  return {};
}

bool isLoopback(const Address& address) {
  return address.family == AF_INET ? address.bytes[0] == 127 : address == parse("::1");
}

}  // namespace

RequestGuard::RequestGuard(std::string bound_address)
    : RequestGuard(std::move(bound_address), machineName()) {}

RequestGuard::RequestGuard(std::string bound_address, std::string machine_name)
    : bound_address_(std::move(bound_address)),
      any_address_(parse(bound_address_) == parse("0.0.0.0") ||
                   parse(bound_address_) == parse("::")),
      machine_name_(std::move(machine_name)),
      short_name_(machine_name_.substr(0, machine_name_.find('.'))) {}

bool RequestGuard::acceptsHost(std::string_view host) const {
  const std::string name = withoutPort(host);
  const Address address = parse(name);
  if (address.family != AF_UNSPEC) {
    return any_address_ || isLoopback(address) || address == parse(bound_address_);
  }
  if (equalIgnoringCase(name, "localhost")) return true;
  // Whole names only: whoever has a domain can put our first label before it.
  return !short_name_.empty() &&
         (equalIgnoringCase(name, machine_name_) || equalIgnoringCase(name, short_name_));
}

bool RequestGuard::acceptsOrigin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return equalIgnoringCase(origin.substr(scheme.size()), host);
  }
  return false;
}

}  // namespace ebbtide::metrics
