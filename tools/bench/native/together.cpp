// Models of several runtimes in one process:
//
//   together THREADS CALLS (SIDE MODEL CASE)...
//
// All are opened, then called in turn, by one thread and by THREADS at once with CALLS of each; results are compared with eager's.
// Then the first is closed, and the others are called again. Prints a line a model: the largest difference of all calls, and the
// largest magnitude of eager's results.
#define OPEN_SIDE open_none  // `main` is below, not in side.h
#include "side.h"

#include <mutex>

std::unique_ptr<side::Model> open_aotinductor(const std::string& path, int threads, side::Case& given);
std::unique_ptr<side::Model> open_executorch(const std::string& path, int threads, side::Case& given);
std::unique_ptr<side::Model> open_libtorch(const std::string& path, int threads, side::Case& given);
std::unique_ptr<side::Model> open_native(const std::string& path, int threads, side::Case& given);

namespace {

side::Open side_of(const std::string& name) {
  if (name == "aotinductor") return open_aotinductor;
  if (name == "executorch") return open_executorch;
  if (name == "libtorch") return open_libtorch;
  if (name == "native") return open_native;
  throw std::runtime_error("there is no side " + name);
}

/// A model, its case, and the worst of all comparisons.
class Member {
 public:
  Member(const std::string& name, const std::string& path, const std::string& folder)
      : given_(side::read_case(folder)), model_(side_of(name)(path, 1, given_)), has_shared_results_(name == "executorch") {}
  std::unique_ptr<side::Call> call() { return model_->call(given_); }
  void run(side::Call& call) {
    std::unique_lock<std::mutex> alone(calling_, std::defer_lock);
    if (has_shared_results_) alone.lock();
    call.run();
    const side::Differences found = side::compare(call, given_);
    const std::lock_guard<std::mutex> writing(turn_);
    worst_.difference = side::larger(worst_.difference, found.difference);
    worst_.magnitude = found.magnitude;
    ++calls_;
  }
  void close() { model_.reset(); }
  void print() const {
    std::printf("difference=%.9g magnitude=%.9g calls=%lld\n", worst_.difference, worst_.magnitude, static_cast<long long>(calls_));
  }

 private:
  side::Case given_;
  std::unique_ptr<side::Model> model_;
  bool has_shared_results_;  // the next call of the model, by any thread, writes over them
  std::mutex calling_, turn_;
  side::Differences worst_;
  int64_t calls_ = 0;
};

using Members = std::vector<std::unique_ptr<Member>>;

/// Calls each in turn, so many times.
void in_turn(const Members& members, size_t first, int64_t times) {
  std::vector<std::unique_ptr<side::Call>> calls;
  for (size_t at = first; at < members.size(); ++at) calls.push_back(members[at]->call());
  for (int64_t done = 0; done < times; ++done) {
    for (size_t at = first; at < members.size(); ++at) members[at]->run(*calls[at - first]);
  }
}

void run(const std::vector<std::string>& words) {
  const int64_t count = std::stoll(words.at(0)), times = std::stoll(words.at(1));
  Members members;
  for (size_t at = 2; at < words.size(); at += 3) {
    members.push_back(std::make_unique<Member>(words[at], words.at(at + 1), words.at(at + 2)));
  }
  in_turn(members, 0, 2);
  std::vector<std::thread> threads;
  std::atomic<int64_t> failed{0};
  for (int64_t at = 0; at < count; ++at) {
    threads.emplace_back([&] {
      try {
        in_turn(members, 0, times);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed > 0) throw std::runtime_error(std::to_string(failed.load()) + " threads failed");
  members.front()->close();
  in_turn(members, 1, 2);
  for (const auto& member : members) member->print();
}

}  // namespace

int main(int count, char** words) {
  try {
    run({words + 1, words + count});
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
