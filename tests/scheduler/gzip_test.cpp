#include "base/gzip.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/graph_file.hpp"
#include "mutations.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

std::string packed(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string result(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string problem(const std::string& data, std::size_t most = kMostUnpackedBytes) {
  try {
    unpackGzip(data, most);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Gzip, UnpacksWhatWasPacked) {
  std::string text;
  for (int i = 0; i < 100'000; ++i)
    text += std::to_string(i % 313 * (i % 977));  // several output buffers
  EXPECT_TRUE(isGzip(packed(text)));
  EXPECT_EQ(unpackGzip(packed(text)), text);
  EXPECT_EQ(unpackGzip(packed("")), "");
  EXPECT_FALSE(isGzip(text));
  EXPECT_FALSE(isGzip("\x1f"));
}

TEST(Gzip, UnpacksSeveralMembers) {
  EXPECT_EQ(unpackGzip(packed("ab") + packed("") + packed("cd")), "abcd");
  EXPECT_TRUE(contains(problem(packed("ab") + "cd"), "something follows the end"));
}

TEST(Gzip, RefusesFilesThatAreCutShort) {
  const std::string whole = packed("a text that is long enough to be cut anywhere");
  for (std::size_t length = 2; length < whole.size(); ++length) {
    EXPECT_TRUE(contains(problem(whole.substr(0, length)), "cut short")) << length;
  }
}

// The check sum's last bytes are the file's: 4 of them, then 4 of the length.
TEST(Gzip, RefusesDamagedFiles) {
  std::string wrong_sum = packed("a text");
  wrong_sum[wrong_sum.size() - 8] = static_cast<char>(wrong_sum[wrong_sum.size() - 8] ^ 1);
  EXPECT_TRUE(contains(problem(wrong_sum), "damaged at byte")) << problem(wrong_sum);
  std::string wrong_method = packed("a text");
  wrong_method[2] = 7;
  EXPECT_TRUE(contains(problem(wrong_method), "unknown compression method"));
}

// 8 MiB of zeros are 8 kB packed; no more than the limit and one buffer is ever unpacked.
TEST(Gzip, StopsAtTheLimit) {
  const std::string bomb = packed(std::string(std::size_t{8} << 20, '0'));
  EXPECT_LT(bomb.size(), 20'000u);
  EXPECT_EQ(problem(bomb, 1 << 20), "gzip: unpacks to more than 1048576 bytes");
  EXPECT_EQ(problem(packed("abc"), 3), "");
  EXPECT_NE(problem(packed("abc"), 2), "");
}

TEST(Gzip, GraphsAreReadFromIt) {
  const std::string text = toJson(chain(3));
  EXPECT_EQ(toJson(readGraph(packed(text), GraphFormat::kAuto, CostModel::kReal)), text);
  EXPECT_EQ(toJson(readGraph(packed(text), GraphFormat::kGraph, CostModel::kReal)), text);
  // Not without end: a packed file in a packed file.
  EXPECT_THROW(readGraph(packed(packed(text)), GraphFormat::kAuto, CostModel::kReal),
               std::invalid_argument);
}

TEST(Gzip, DamageIsAlwaysNoticed) {
  const std::string text = toJson(chain(20));
  const std::string whole = packed(text);
  for (std::uint64_t seed = 0; seed < 4'000; ++seed) {
    const std::string damaged = Mutations(seed).apply(whole);
    if (damaged == whole || !isGzip(damaged)) continue;
    try {
      // The header's time, system and flags are covered by no check sum.
      EXPECT_EQ(unpackGzip(damaged), text) << seed;
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(contains(error.what(), "gzip: ")) << seed;
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
