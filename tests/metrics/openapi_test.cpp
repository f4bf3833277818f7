// metrics/openapi.json says what is served: no path or method more, none less.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "fabricated_rank.hpp"
#include "node_view.hpp"

namespace ebbtide::metrics::test {
namespace {

using nlohmann::json;

class OpenApiTest : public testing::Test {
 protected:
  json fetched(const std::string& path) {
    json body;
    node_.routes().answer({.method = "GET", .path = path},
                          [&](const Response& response) { body = json::parse(response.body); });
    return body;
  }

  boost::asio::io_context context_;
  FabricatedRank rank_{{.rank = 0, .job_id = "job"}};
  NodeView node_{context_, std::make_shared<Mailbox>(context_), {}, rank_.routes()};
};

TEST_F(OpenApiTest, ListsTheRoutesThatThereAre) {
  std::set<std::pair<std::string, std::string>> served;
  for (const auto& [method, path] : node_.routes().list()) served.emplace(path, method);
  std::set<std::pair<std::string, std::string>> described;
  const json description = fetched("/openapi.json");
  for (const auto& [path, methods] : description["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      described.emplace(path, method == "get" ? "GET" : method == "post" ? "POST" : method);
    }
  }
  EXPECT_EQ(described, served);
}

// Each name that is referred to is defined, and each that is defined is referred to.
TEST_F(OpenApiTest, ItsReferencesAreResolved) {
  const json description = fetched("/openapi.json");
  EXPECT_EQ(description["openapi"], "3.1.0");
  std::set<std::string> used;
  const auto collect = [&used](const auto& self, const json& value) -> void {
    if (value.is_object() && value.contains("$ref")) used.insert(value["$ref"].get<std::string>());
    if (!value.is_structured()) return;
    for (const json& part : value) self(self, part);
  };
  collect(collect, description);
  std::set<std::string> defined;
  for (const char* kind : {"schemas", "responses", "parameters"}) {
    for (const auto& [name, value] : description["components"][kind].items()) {
      defined.insert("#/components/" + std::string(kind) + "/" + name);
    }
  }
  EXPECT_EQ(used, defined);
}

// Every change needs the token, names it, and has the answers of a request without it.
TEST_F(OpenApiTest, EveryChangeNeedsTheToken) {
  const json description = fetched("/openapi.json");
  for (const auto& [path, methods] : description["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      EXPECT_EQ(operation.contains("security"), method == "post") << path;
      EXPECT_EQ(operation["responses"].contains("401"), method == "post") << path;
      for (const char* status : {"400", "403", "405", "421", "429", "431", "500", "503", "504"}) {
        EXPECT_TRUE(operation["responses"].contains(status)) << path << " " << status;
      }
    }
  }
}

TEST_F(OpenApiTest, ThePageIsServedWithAPolicyThatLoadsNothing) {
  node_.routes().answer({.method = "GET", .path = "/"}, [](const Response& response) {
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
    EXPECT_TRUE(response.headers.at("Content-Security-Policy").starts_with("default-src 'none'; "));
    EXPECT_NE(response.body.find("<title>"), std::string::npos);
  });
}

}  // namespace
}  // namespace ebbtide::metrics::test
