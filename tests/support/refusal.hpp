#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

namespace reprise::test {

/// Expects that the call throws an Exception whose message holds all of these words: the option
/// or field at fault, its value, what is allowed.
template <class Exception, class Call>
void expect_refusal(Call&& call, std::initializer_list<std::string_view> words) {
  try {
    call();
  } catch (const Exception& error) {
    const std::string message = error.what();
    for (const std::string_view word : words) {
      EXPECT_NE(message.find(word), std::string::npos)
          << "the message does not say \"" << word << "\": " << message;
    }
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "refused with an exception of another type: " << error.what();
    return;
  }
  ADD_FAILURE() << "was not refused";
}

}  // namespace reprise::test
