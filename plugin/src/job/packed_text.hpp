// What a rank writes into the job's store, made small: zlib's format (RFC 1950). Torch-free.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebbtide::plugin {

// `known` is what such a text mostly has in it: it costs nothing then. At most 32 KiB are of use;
// what packs and what unpacks have the same.
std::string packText(std::string_view text, std::string_view known);

// Throws std::invalid_argument with the reason: damaged, cut short, packed with another `known`,
// followed by something, or longer than `most_bytes`. It unpacks no more than `most_bytes`.
std::string unpackText(std::string_view packed, std::string_view known, std::size_t most_bytes);

}  // namespace ebbtide::plugin
