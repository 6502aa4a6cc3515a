// What the drivers of all sides share: a case (inputs, and the results of eager), `main`, and the commands of a driver.
//
//   DRIVER MODEL CASE THREADS first              one call in a fresh process, measured since the process began
//   DRIVER MODEL CASE THREADS serve              calls on request: a line of standard input `time NANOSECONDS` or `check`
//   DRIVER MODEL CASE THREADS share COUNT CALLS  so many threads with so many calls each, each result compared with the first
//   DRIVER MODEL CASE THREADS reload COUNT       opens, runs and closes the model so many times
//   DRIVER MODEL CASE THREADS hold               one call, then waits for a line of standard input
//
// Answers are lines of NAME=NUMBER words; `first` lists the shared libraries before, a line `library PATH` each. THREADS are
// those inside a call.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace side {

/// An input or a result: element type `f32` or `i64`.
struct Value {
  std::string name, dtype;
  std::vector<int64_t> sizes;
  std::vector<char> bytes;
  int64_t count() const {
    int64_t product = 1;
    for (const int64_t size : sizes) product *= size;
    return product;
  }
};

struct Case {
  std::vector<Value> inputs, outputs;
};

/// The case in a folder: a line of `case.txt` is `input|output NAME DTYPE FILE SIZE...`.
inline Case read_case(const std::string& folder) {
  Case found;
  std::ifstream lines(folder + "/case.txt");
  if (!lines) throw std::runtime_error(folder + " has no case.txt");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string role, file;
    Value value;
    words >> role >> value.name >> value.dtype >> file;
    for (int64_t size = 0; words >> size;) value.sizes.push_back(size);
    std::ifstream data(folder + "/" + file, std::ios::binary);
    value.bytes.assign(std::istreambuf_iterator<char>(data), std::istreambuf_iterator<char>());
    const int64_t width = value.dtype == "i64" ? 8 : 4;
    if (static_cast<int64_t>(value.bytes.size()) != value.count() * width) throw std::runtime_error(file + " is not whole");
    (role == "input" ? found.inputs : found.outputs).push_back(std::move(value));
  }
  return found;
}

/// Calls of one thread.
struct Call {
  virtual ~Call() = default;
  virtual void run() = 0;
  /// A result of the last run, which is float32.
  virtual const float* output(size_t index) = 0;
};

struct Model {
  virtual ~Model() = default;
  virtual std::unique_ptr<Call> call(Case& given) = 0;
};

/// Opens the model at a path, for calls on so many threads.
using Open = std::function<std::unique_ptr<Model>(const std::string& path, int threads, Case& given)>;

inline int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

/// Kilobytes resident; `file`: those in large maps of files in the model's folder, its weights; `mapped`: the size of these maps.
struct Resident {
  int64_t total = 0, anonymous = 0, file = 0, mapped = 0;
};

inline Resident resident(const std::string& path) {
  constexpr uint64_t kLarge = 1 << 20;  // smaller ones are code
  Resident found;
  std::ifstream lines("/proc/self/smaps");
  const std::string folder = std::filesystem::weakly_canonical(std::filesystem::absolute(path)).parent_path().string();
  bool is_file = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t slash = line.find('/');
    if (line.find('-') < line.find(' ')) {  // the head of a map: its range, rights, place in a file, the file
      char* rest = nullptr;
      const uint64_t begin = std::strtoull(line.c_str(), &rest, 16), end = std::strtoull(rest + 1, nullptr, 16);
      is_file = end - begin >= kLarge && slash != std::string::npos && line.compare(slash, folder.size(), folder) == 0;
      continue;
    }
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    words >> name >> kilobytes;
    if (name == "Rss:") found.total += kilobytes, found.file += is_file ? kilobytes : 0;
    if (name == "Size:") found.mapped += is_file ? kilobytes : 0;
    if (name == "Anonymous:") found.anonymous += kilobytes;
  }
  return found;
}

/// The largest difference from the results of eager, which may be no number, and their largest magnitude.
struct Differences {
  double difference = 0, magnitude = 0;
};

/// The larger one; NaN if one of them is.
inline double larger(double one, double other) { return std::isnan(one) || other <= one ? one : other; }

inline Differences compare(Call& call, const Case& given) {
  double difference = 0, magnitude = 0;
  for (size_t index = 0; index < given.outputs.size(); ++index) {
    const auto* want = reinterpret_cast<const float*>(given.outputs[index].bytes.data());
    const float* found = call.output(index);
    for (int64_t at = 0; at < given.outputs[index].count(); ++at) {
      const double apart = std::fabs(static_cast<double>(found[at]) - want[at]);
      difference = larger(difference, apart);
      magnitude = std::fmax(magnitude, std::fabs(want[at]));
    }
  }
  return {difference, magnitude};
}

inline void print_differences(Call& call, const Case& given) {
  const Differences found = compare(call, given);
  std::printf("difference=%.9g magnitude=%.9g", found.difference, found.magnitude);
}

inline void print_resident(const std::string& path) {
  const Resident found = resident(path);
  std::printf(" resident=%lld anonymous=%lld file=%lld mapped=%lld", static_cast<long long>(found.total),
              static_cast<long long>(found.anonymous), static_cast<long long>(found.file), static_cast<long long>(found.mapped));
}

/// Prints the shared libraries of this process.
inline void print_libraries() {
  std::ifstream lines("/proc/self/maps");
  std::set<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    const size_t slash = line.find('/');
    if (slash != std::string::npos && line.find(".so", slash) != std::string::npos) found.insert(line.substr(slash));
  }
  for (const std::string& path : found) std::printf("library %s\n", path.c_str());
}

inline int64_t process_nanoseconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) { return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1'000LL; };
  return of(used.ru_utime) + of(used.ru_stime);
}

inline void first(const Open& open, const std::string& path, int threads, Case& given) {
  const auto model = open(path, threads, given);
  const auto call = model->call(given);
  call->run();
  const int64_t cpu = process_nanoseconds(), wall = nanoseconds(CLOCK_MONOTONIC);
  print_libraries();
  print_differences(*call, given);
  print_resident(path);
  std::printf(" cpu=%lld wall=%lld\n", static_cast<long long>(cpu), static_cast<long long>(wall));
  std::fflush(stdout);
  std::_Exit(0);  // the end of a process is not measured
}

/// Calls for about so many nanoseconds, after one that is not measured.
inline void time_calls(Call& call, int64_t budget) {
  call.run();
  int64_t wall = 0, cpu = 0, calls = 0, batch = 1;
  while (wall < budget) {
    const int64_t wall_begin = nanoseconds(CLOCK_MONOTONIC), cpu_begin = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t done = 0; done < batch; ++done) call.run();
    const int64_t took = nanoseconds(CLOCK_MONOTONIC) - wall_begin;
    cpu += nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
    wall += took;
    calls += batch;
    if (took < budget / 8) batch *= 2;  // asking for the time costs as much as a small call
  }
  std::printf("calls=%lld wall=%lld cpu=%lld\n", static_cast<long long>(calls), static_cast<long long>(wall),
              static_cast<long long>(cpu));
}

inline void serve(const Open& open, const std::string& path, int threads, Case& given) {
  const auto model = open(path, threads, given);
  const auto call = model->call(given);
  call->run();
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "check") {
      print_differences(*call, given);
      std::printf("\n");
    } else {
      time_calls(*call, std::atoll(line.c_str() + line.find(' ')));
    }
    std::fflush(stdout);
  }
}

inline void share(const Open& open, const std::string& path, int threads, Case& given, int64_t count, int64_t calls) {
  const auto model = open(path, threads, given);
  const auto one = model->call(given);
  one->run();
  std::atomic<int64_t> different{0};
  const auto work = [&](int64_t times) {
    const auto mine = model->call(given);
    for (int64_t done = 0; done < times; ++done) {
      mine->run();
      for (size_t index = 0; index < given.outputs.size(); ++index) {
        const size_t nbytes = given.outputs[index].bytes.size();
        if (std::memcmp(mine->output(index), one->output(index), nbytes) != 0) ++different;
      }
    }
  };
  const auto together = [&](int64_t times) {
    std::vector<std::thread> all;
    for (int64_t at = 0; at < count; ++at) all.emplace_back(work, times);
    for (std::thread& thread : all) thread.join();
  };
  together(calls / 10 + 1);
  const int64_t before = resident(path).total;
  together(calls);
  print_differences(*one, given);
  std::printf(" different=%lld before=%lld", static_cast<long long>(different.load()), static_cast<long long>(before));
  print_resident(path);
  std::printf("\n");
}

inline void reload(const Open& open, const std::string& path, int threads, Case& given, int64_t count) {
  int64_t before = 0;
  for (int64_t done = 0; done < count; ++done) {
    const auto model = open(path, threads, given);
    const auto call = model->call(given);
    call->run();
    if (done == count / 10) before = resident(path).total;
    if (done + 1 == count) print_differences(*call, given);
  }
  std::printf(" before=%lld", static_cast<long long>(before));
  print_resident(path);
  std::printf("\n");
}

inline void hold(const Open& open, const std::string& path, int threads, Case& given) {
  const auto model = open(path, threads, given);
  const auto call = model->call(given);
  call->run();
  print_differences(*call, given);
  std::printf("\n");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
}

inline int drive(int count, char** words, const Open& open) {
  const std::vector<std::string> args(words, words + count);
  if (args.size() < 5) return std::fprintf(stderr, "%s MODEL CASE THREADS first|serve|share|reload|hold ...\n", words[0]), 2;
  try {
    Case given = read_case(args[2]);
    const int threads = std::atoi(args[3].c_str());
    const auto number = [&args](size_t at) { return std::atoll(args.at(at).c_str()); };
    if (args[4] == "first") first(open, args[1], threads, given);
    if (args[4] == "serve") serve(open, args[1], threads, given);
    if (args[4] == "share") share(open, args[1], threads, given, number(5), number(6));
    if (args[4] == "reload") reload(open, args[1], threads, given, number(5));
    if (args[4] == "hold") hold(open, args[1], threads, given);
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}

}  // namespace side

// A driver defines one function, which opens a model. A program of several sides (`together.cpp`) gives each a name:
// -DOPEN_SIDE=open_native.
#ifndef OPEN_SIDE
#define OPEN_SIDE open_side
std::unique_ptr<side::Model> open_side(const std::string& path, int threads, side::Case& given);
int main(int count, char** words) { return side::drive(count, words, open_side); }
#endif
