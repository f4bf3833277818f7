// Bytes on the wire, by hand from the encoding's rules, and back.
#include "solver/cp_sat_model.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "solver/protobuf_wire.hpp"

namespace ebbtide::scheduler {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

TEST(ProtobufWire, WritesAsTheEncodingSays) {
  // Field 1, varint: tag 1 << 3 | 0. 150 = 0b1'0010110: its low seven bits first.
  EXPECT_EQ(ProtobufMessage().integer(1, 150).wire(), bytes({0x08, 0x96, 0x01}));
  // -1 is 64 ones: nine bytes of seven and a last one.
  EXPECT_EQ(ProtobufMessage().integer(1, -1).wire(),
            bytes({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}));
  // Field 2, delimited: tag 2 << 3 | 2.
  EXPECT_EQ(ProtobufMessage().bytes(2, "hi").wire(), bytes({0x12, 2, 'h', 'i'}));
  EXPECT_EQ(ProtobufMessage().packed(2, {1, 300}).wire(), bytes({0x12, 3, 0x01, 0xac, 0x02}));
  // 1.0 is 0x3ff0000000000000; field 36: tag 36 << 3 | 1 = 289 = 0b10'0100001.
  EXPECT_EQ(ProtobufMessage().real(36, 1.0).wire(),
            bytes({0xa1, 0x02, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}));
  const ProtobufMessage inner = ProtobufMessage().integer(1, 5);
  EXPECT_EQ(ProtobufMessage().message(3, inner).wire(), bytes({0x1a, 2, 0x08, 5}));
}

TEST(ProtobufWire, ReadsWhatItWrites) {
  const std::vector<std::int64_t> values = {0,
                                            -7,
                                            127,
                                            128,
                                            std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::int64_t>::max()};
  const std::string wire =
      ProtobufMessage().packed(2, values).real(3, -0.25).integer(1, 4).bytes(20, "why").wire();
  const auto fields = protobufFields(wire);
  ASSERT_TRUE(fields);
  ASSERT_EQ(fields->size(), 4u);
  EXPECT_EQ((*fields)[0].integers(), values);
  EXPECT_EQ((*fields)[1].real(), -0.25);
  EXPECT_EQ((*fields)[2].number, 1);
  EXPECT_EQ((*fields)[2].integers(), std::vector<std::int64_t>{4});
  EXPECT_EQ((*fields)[3].bytes, "why");
}

TEST(ProtobufWire, RefusesWhatIsCutOffOrUnknown) {
  const std::string wire = ProtobufMessage().bytes(2, "hello").real(3, 1).integer(1, 300).wire();
  int messages = 0;
  for (std::size_t size = 0; size < wire.size(); ++size) {
    messages += protobufFields(std::string_view(wire).substr(0, size)).has_value();
  }
  EXPECT_EQ(messages, 3);                             // cut at the field borders alone
  EXPECT_FALSE(protobufFields(bytes({0x0b})));        // a group
  EXPECT_FALSE(protobufFields(bytes({0x00, 0x01})));  // field 0
}

TEST(ProtobufWire, ReadsNoiseWithoutHarm) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string noise(random() % 40, 0);
    for (char& byte : noise) byte = static_cast<char>(random());
    CpSatResponse::fromWire(noise);
  }
}

TEST(CpSatModel, WritesVariablesAsClosedRanges) {
  CpSatModel model;
  EXPECT_EQ(model.addVariable(0, 9), 0);
  EXPECT_EQ(model.addVariable({1, 2, 3, 7}), 1);
  EXPECT_EQ(model.variables(), 2u);
  // variables = 2, each with domain = 2: 0 … 9; 1 … 3 and 7 … 7.
  EXPECT_EQ(model.wire(), bytes({0x12, 4, 0x12, 2, 0, 9, 0x12, 6, 0x12, 4, 1, 3, 7, 7}));
}

TEST(CpSatModel, ReadsAResponse) {
  const auto response = CpSatResponse::fromWire(
      ProtobufMessage().integer(1, 2).packed(2, {3, -4}).real(3, 12).real(4, 7).wire());
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, CpSatResponse::Status::kFeasible);
  EXPECT_EQ(response->values, (std::vector<std::int64_t>{3, -4}));
  EXPECT_EQ(response->objective, 12);
  EXPECT_EQ(response->bound, 7);
  EXPECT_FALSE(CpSatResponse::fromWire(ProtobufMessage().integer(1, 9).wire()));
}

}  // namespace
}  // namespace ebbtide::scheduler
