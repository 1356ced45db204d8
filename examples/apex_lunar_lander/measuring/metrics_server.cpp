#include "measuring/metrics_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace apex {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;

constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};  // With a client that says nothing.

http::response<http::string_body> answer(const http::request<http::empty_body>& request,
                                         const prometheus::Collectable& metrics) {
  http::response<http::string_body> response(http::status::not_found, request.version());
  if (request.target() == "/metrics") {
    response.result(http::status::ok);
    response.set(http::field::content_type, "text/plain; version=0.0.4");
    response.body() = prometheus::TextSerializer().Serialize(metrics.Collect());
  }
  response.prepare_payload();
  return response;
}

}  // namespace

/// In place of `prometheus::Exposer`, whose threads have stacks of 100 KB: less than the
/// thread-local data of the libraries that libtorch brings, so they cannot be started beside it.
class MetricsServer::Server {
 public:
  Server(std::shared_ptr<prometheus::Collectable> metrics, std::uint16_t port)
      : metrics_(std::move(metrics)),
        acceptor_(context_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), port)) {
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Server() {
    context_.stop();
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket client) {
      if (!error) {
        serve(client);
      }
      accept();
    });
  }
  /// One client at a time: Prometheus asks every few seconds.
  void serve(tcp::socket& client) const {
    for (const int direction : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      ::setsockopt(client.native_handle(), SOL_SOCKET, direction, &kPatience, sizeof(kPatience));
    }
    boost::system::error_code error;
    boost::beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    http::read(client, buffer, request, error);
    if (!error) {
      http::write(client, answer(request, *metrics_), error);
    }
  }

  const std::shared_ptr<prometheus::Collectable> metrics_;
  boost::asio::io_context context_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

MetricsServer::MetricsServer(reprise::ReplayBuffer& replay, std::uint16_t port)
    : meter_(metrics_.watch(replay)),
      server_(std::make_unique<Server>(metrics_.collectable(), port)) {
  std::printf("Metrics: http://127.0.0.1:%d/metrics\n", server_->port());
  std::fflush(stdout);
}

MetricsServer::~MetricsServer() = default;

}  // namespace apex
