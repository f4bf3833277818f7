#include "ebbtide/metrics/routes.hpp"

#include <gtest/gtest.h>

#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ebbtide::metrics {
namespace {

std::optional<Response> ask(const Routes& routes, const std::string& method,
                            const std::string& path, bool may_change = true) {
  std::optional<Response> response;
  routes.answer({.method = method, .path = path, .may_change = may_change},
                [&](Response given) { response = std::move(given); });
  return response;
}

class RoutesTest : public testing::Test {
 protected:
  RoutesTest() {
    routes_.get("/both", [](const Request& request) { return Response{.body = request.method}; });
    routes_.post("/both", [](const Request&, const Answer& answer) { answer({.body = "did"}); });
    routes_.get("/read", [](const Request&) { return Response{}; });
    routes_.post("/change", [this](const Request&, Answer answer) { kept_ = std::move(answer); });
    routes_.get("/full", [](const Request&) -> Response { throw std::bad_alloc(); });
    routes_.get("/throw",
                [](const Request&) -> Response { throw std::runtime_error("not \"now\""); });
  }

  Routes routes_;
  Answer kept_;
};

TEST_F(RoutesTest, AnswersByPathAndMethod) {
  EXPECT_EQ(ask(routes_, "GET", "/both")->body, "GET");
  EXPECT_EQ(ask(routes_, "HEAD", "/both")->body, "HEAD");
  EXPECT_EQ(ask(routes_, "POST", "/both")->body, "did");
  for (const char* path : {"", "/", "/bot", "/both/", "/../both", "//both"}) {
    EXPECT_EQ(ask(routes_, "GET", path)->status, 404) << path;
  }
}

TEST_F(RoutesTest, SaysWhatIsAllowed) {
  EXPECT_EQ(ask(routes_, "DELETE", "/both")->headers.at("Allow"), "GET, HEAD, POST");
  EXPECT_EQ(ask(routes_, "POST", "/read")->headers.at("Allow"), "GET, HEAD");
  EXPECT_EQ(ask(routes_, "GET", "/change")->headers.at("Allow"), "POST");
  EXPECT_EQ(ask(routes_, "get", "/read")->status, 405);
}

TEST_F(RoutesTest, ChangesNeedToBeAllowed) {
  EXPECT_EQ(ask(routes_, "POST", "/both", false)->status, 403);
  EXPECT_EQ(ask(routes_, "GET", "/both", false)->status, 200);
}

TEST_F(RoutesTest, WhatAHandlerThrowsIsAnError) {
  const Response response = *ask(routes_, "GET", "/throw");
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, "{\"code\":\"EB118\",\"error\":\"not \\\"now\\\"\"}\n");
}

TEST_F(RoutesTest, WithoutMemoryItIsToBeAskedAgain) {
  const Response response = *ask(routes_, "GET", "/full");
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.body.find("out of memory"), std::string::npos);
}

// Of two values of one name each parser takes another one, and after a NUL byte some read no more.
TEST_F(RoutesTest, BodiesThatMeanTwoThingsAreRefused) {
  const auto change = [this](const std::string& body) {
    Response response;
    routes_.answer({.method = "POST", .path = "/both", .body = body, .may_change = true},
                   [&](Response given) { response = std::move(given); });
    return response;
  };
  const std::string twice = R"({"code":"EB104","error":"the body has \"budget\" twice"})"
                            "\n";
  for (const char* body :
       {R"({"budget": 1, "budget": 2})", R"({"budget": 1, "budget": 1})",
        R"({"budget": 1, "\u0062udget": 2})", R"([{"a": {"b": 1, "budget": 1, "budget": 2}}])"}) {
    EXPECT_EQ(change(body).status, 400) << body;
    EXPECT_EQ(change(body).body, twice) << body;
  }
  for (const char* text : {"{}*", "*{}", "{\"budget\": \"1*\"}", "*"}) {
    std::string body = text;
    body[body.find('*')] = '\0';
    EXPECT_EQ(change(body).status, 400) << text;
    EXPECT_EQ(change(body).body, "{\"code\":\"EB104\",\"error\":\"the body has a NUL byte\"}\n")
        << text;
  }
  // The same name in two objects; what is no JSON, or an escaped NUL, is for who reads it.
  for (const char* body : {R"({"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}]})", "", "{", "budget=1",
                           R"({"budget": "1\u0000"})", R"({"budget": 1} {"budget": 1})"}) {
    EXPECT_EQ(change(body).body, "did") << body;
  }
  EXPECT_EQ(change("{\"a\":" + std::string(60000, '[')).body, "did");
}

// Each cause has a code of its own, and it is the same whatever the sentence is.
TEST_F(RoutesTest, ARefusalHasTheCodeOfItsCause) {
  const auto code = [](const std::optional<Response>& response) {
    return nlohmann::json::parse(response->body).at("code").get<std::string>();
  };
  EXPECT_EQ(code(ask(routes_, "GET", "/nothing")), "EB110");
  EXPECT_EQ(code(ask(routes_, "GET", "/nowhere")), "EB110");
  EXPECT_EQ(code(ask(routes_, "DELETE", "/both")), "EB112");
  EXPECT_EQ(code(ask(routes_, "POST", "/both", false)), "EB107");
  EXPECT_EQ(code(ask(routes_, "GET", "/full")), "EB119");
  std::optional<Response> dropped;
  routes_.answer({.method = "POST", .path = "/change", .may_change = true},
                 [&](Response response) { dropped = std::move(response); });
  kept_ = nullptr;
  EXPECT_EQ(code(dropped), "EB120");
  const Response late = errorResponse(refusals::kLate, "too \"late\"");
  EXPECT_EQ(late.status, 504);
  EXPECT_EQ(late.body, "{\"code\":\"EB124\",\"error\":\"too \\\"late\\\"\"}\n");
}

TEST_F(RoutesTest, TheFirstAnswerCounts) {
  std::vector<int> given;
  routes_.answer({.method = "POST", .path = "/change", .may_change = true},
                 [&](const Response& response) { given.push_back(response.status); });
  EXPECT_TRUE(given.empty());
  std::thread([this] { kept_({.status = 202}); }).join();
  kept_({.status = 409});
  kept_ = nullptr;
  EXPECT_EQ(given, std::vector<int>{202});
}

TEST_F(RoutesTest, AnAnswerThatIsDroppedIsAnError) {
  std::vector<int> given;
  routes_.answer({.method = "POST", .path = "/change", .may_change = true},
                 [&](const Response& response) { given.push_back(response.status); });
  kept_ = nullptr;
  EXPECT_EQ(given, std::vector<int>{503});
}

TEST_F(RoutesTest, ListsWhatThereIs) {
  const std::vector<Routes::Route> expected = {{"GET", "/both"},    {"POST", "/both"},
                                               {"POST", "/change"}, {"GET", "/full"},
                                               {"GET", "/read"},    {"GET", "/throw"}};
  EXPECT_EQ(routes_.list(), expected);
  EXPECT_TRUE(routes_.mayBeLate({.method = "POST", .path = "/both"}));
  EXPECT_FALSE(routes_.mayBeLate({.method = "GET", .path = "/both"}));
  EXPECT_FALSE(routes_.mayBeLate({.method = "POST", .path = "/read"}));
}

}  // namespace
}  // namespace ebbtide::metrics
