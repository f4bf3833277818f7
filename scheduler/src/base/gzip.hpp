// Compressed files (RFC 1952): recorded steps shrink to a fifth or less.
#pragma once

#include <cstddef>
#include <string>

namespace ebbtide::scheduler {

// As large as the tree of a text may be read from: 256 MiB.
inline constexpr std::size_t kMostUnpackedBytes = std::size_t{256} << 20;

// By its first two bytes.
bool isGzip(const std::string& data);

// Every member of the file, one after another. Throws std::invalid_argument beginning with "gzip: "
// for data that is damaged, cut short or followed by anything else, and as soon as more than `most`
// bytes have come out.
std::string unpackGzip(const std::string& data, std::size_t most = kMostUnpackedBytes);

}  // namespace ebbtide::scheduler
