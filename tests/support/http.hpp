#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <system_error>

namespace reprise::test {

/// The body of what a server of this machine answers to a GET, or "" unless it answers with 200.
inline std::string http_get(std::uint16_t port, const std::string& path) {
  struct Socket {
    int number = ::socket(AF_INET, SOCK_STREAM, 0);
    ~Socket() { ::close(number); }
  } const socket;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.number, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::system_error(errno, std::generic_category(), "connect");
  }
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
  if (::send(socket.number, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    throw std::system_error(errno, std::generic_category(), "send");
  }
  std::string answer;
  char part[4096];
  for (ssize_t got = 0; (got = ::recv(socket.number, part, sizeof part, 0)) > 0;) {
    answer.append(part, static_cast<std::size_t>(got));
  }
  const std::size_t body = answer.find("\r\n\r\n");
  const bool good = answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200");
  return good && body != std::string::npos ? answer.substr(body + 4) : "";
}

}  // namespace reprise::test
