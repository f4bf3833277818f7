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
    : RequestGuard(std::move(bound_address), machineName(), searchDomains()) {}

RequestGuard::RequestGuard(std::string bound_address, const std::string& machine_name,
                           const std::vector<std::string>& search_domains)
    : bound_address_(std::move(bound_address)),
      any_address_(parse(bound_address_) == parse("0.0.0.0") ||
                   parse(bound_address_) == parse("::")),
      names_{"localhost"} {
  const std::string label = machine_name.substr(0, machine_name.find('.'));
  if (label.empty()) return;
  names_.push_back(machine_name);
  names_.push_back(label);
  for (const std::string& domain : search_domains) names_.push_back(label + "." + domain);
}

bool RequestGuard::acceptsHost(std::string_view host) const {
  const std::string name = withoutPort(host);
  const Address address = parse(name);
  if (address.family != AF_UNSPEC) {
    return any_address_ || isLoopback(address) || address == parse(bound_address_);
  }
  // Whole names only: whoever has a domain can put our first label before it.
  return std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& ours) { return equalIgnoringCase(name, ours); });
}

bool RequestGuard::acceptsOrigin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return equalIgnoringCase(origin.substr(scheme.size()), host);
  }
  return false;
}

}  // namespace ebbtide::metrics
