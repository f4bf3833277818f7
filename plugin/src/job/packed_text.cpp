#include "job/packed_text.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <limits>
#include <new>
#include <stdexcept>

namespace ebbtide::plugin {
namespace {

constexpr std::size_t kOutput = 1 << 14;

// zlib's interface is older than const, it only reads.
Bytef* bytesOf(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

uInt sizeOf(std::string_view text) {
  if (text.size() > std::numeric_limits<uInt>::max())
    throw std::invalid_argument("it is too long to be packed");
  return static_cast<uInt>(text.size());
}

class Stream {
 public:
  using End = int (*)(z_streamp);

  Stream(int begun, z_stream& stream, End end) : stream_(stream), end_(end) {
    if (begun != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { end_(&stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void take(std::string_view text) {
    stream_.next_in = bytesOf(text);
    stream_.avail_in = sizeOf(text);
  }

  // One call with room for kOutput bytes; adds what it makes.
  int run(int (*step)(z_streamp, int), int flush, std::string& made) {
    std::array<Bytef, kOutput> output;
    stream_.next_out = output.data();
    stream_.avail_out = static_cast<uInt>(output.size());
    const int status = step(&stream_, flush);
    made.append(reinterpret_cast<const char*>(output.data()), output.size() - stream_.avail_out);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    return status;
  }

 private:
  z_stream& stream_;
  const End end_;
};

}  // namespace

std::string packText(std::string_view text, std::string_view known) {
  z_stream zlib = {};
  Stream stream(deflateInit(&zlib, Z_BEST_COMPRESSION), zlib, deflateEnd);
  deflateSetDictionary(&zlib, bytesOf(known), sizeOf(known));
  stream.take(text);
  std::string packed;
  while (stream.run(deflate, Z_FINISH, packed) == Z_OK) {
  }
  return packed;
}

std::string unpackText(std::string_view packed, std::string_view known, std::size_t most_bytes) {
  z_stream zlib = {};
  Stream stream(inflateInit(&zlib), zlib, inflateEnd);
  stream.take(packed);
  std::string text;
  for (;;) {
    int status = stream.run(inflate, Z_NO_FLUSH, text);
    if (status == Z_NEED_DICT) status = inflateSetDictionary(&zlib, bytesOf(known), sizeOf(known));
    if (text.size() > most_bytes)
      throw std::invalid_argument(fmt::format("it unpacks to more than {} bytes", most_bytes));
    if (status == Z_STREAM_END) break;
    if (status == Z_BUF_ERROR) throw std::invalid_argument("what is packed in it is cut short");
    if (status != Z_OK) throw std::invalid_argument("what is packed in it is damaged");
  }
  if (zlib.avail_in > 0) throw std::invalid_argument("something follows what is packed in it");
  return text;
}

}  // namespace ebbtide::plugin
