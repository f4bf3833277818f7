// BearerToken: the secret that lets a client change things over TCP (RFC 6750).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ebbtide::metrics {

struct BearerTokenResult;

class BearerToken {
 public:
  // The file's one line. It must be a regular file of this user, closed to all others (0600), and
  // have 16 to 512 characters of A-Z a-z 0-9 - . _ ~ + / =. The token is in no message.
  static BearerTokenResult read(const std::string& path);

  // `authorization`: the header's value. Takes the same time wherever the two differ.
  bool accepts(std::string_view authorization) const;

 private:
  explicit BearerToken(std::string token) : token_(std::move(token)) {}
  std::string token_;
};

struct BearerTokenResult {
  std::optional<BearerToken> token;
  std::string problem;  // one sentence, where there is none
};

}  // namespace ebbtide::metrics
