#include "base/gzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <vector>

namespace ebbtide::scheduler {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib.h, inflateInit2: the gzip header alone is read
constexpr std::size_t kOutput = 1 << 16;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("gzip: " + what);
}

class Inflater {
 public:
  explicit Inflater(const std::string& data) : data_(data) {
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::string run(std::size_t most) {
    std::string text;
    std::vector<Bytef> output(kOutput);
    while (true) {
      refill();
      stream_.next_out = output.data();
      stream_.avail_out = static_cast<uInt>(output.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = output.size() - stream_.avail_out;
      if (made > most - text.size())
        fail("unpacks to more than " + std::to_string(most) + " bytes");
      text.append(reinterpret_cast<const char*>(output.data()), made);
      if (status == Z_STREAM_END) {
        if (position() == data_.size()) return text;
        nextMember();
      } else if (status != Z_OK) {
        failAs(status);
      }
    }
  }

 private:
  // avail_in is 32 bits wide, the data may be longer.
  void refill() {
    if (stream_.avail_in > 0 || given_ == data_.size()) return;
    const std::size_t count =
        std::min<std::size_t>(data_.size() - given_, std::numeric_limits<uInt>::max());
    // zlib's interface is older than const, it only reads.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data_.data() + given_));
    stream_.avail_in = static_cast<uInt>(count);
    given_ += count;
  }

  std::size_t position() const { return given_ - stream_.avail_in; }

  void nextMember() {
    if (!isGzip(data_.substr(position(), 2))) fail("something follows the end" + where());
    inflateReset(&stream_);
  }

  [[noreturn]] void failAs(int status) const {
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_BUF_ERROR) fail("the file is cut short" + where());
    fail(std::string("damaged") + where() + (stream_.msg ? std::string(": ") + stream_.msg : ""));
  }

  std::string where() const { return " at byte " + std::to_string(position()); }

  const std::string& data_;
  std::size_t given_ = 0;  // bytes of data_ that zlib was shown
  z_stream stream_ = {};
};

}  // namespace

bool isGzip(const std::string& data) {
  return data.size() >= 2 && data[0] == '\x1f' && data[1] == '\x8b';
}

std::string unpackGzip(const std::string& data, std::size_t most) {
  return Inflater(data).run(most);
}

}  // namespace ebbtide::scheduler
