// Times, sizes and memory of Protobuf's and FlatBuffers' own C++ libraries on CurrentStatus.
//
//   driver times RECORDS CALLS SAMPLES SEED  one line per sample: message, format, operation, mean of CALLS calls in ns
//   driver sizes RECORDS                     one line per message: bytes in each format
//   driver write RECORDS OUT                 payloads of the one format this program has, each after its length
//   driver encode RECORDS | decode PAYLOADS  works through the file, keeps nothing; prints its peak resident set in KiB
//
// RECORDS are FlatBuffers payloads, each after its length (32 bits, little-endian): a neutral file from which plain C++
// records are made before any clock runs, so that both formats build the same message from the same records. Built
// with -DWITH_PROTOBUF, -DWITH_FLATBUFFERS or both: memory is that of a program that has one library alone.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "flat_generated.h"
#ifdef WITH_PROTOBUF
#include "copy.h"
#include "current_status.pb.h"
#endif

namespace {

using Record = ivsim_flat::CurrentStatusT;
using Clock = std::chrono::steady_clock;

// What is read goes here: a compiler may not leave out work whose result is used.
volatile double sink;

// One payload after another, in one buffer.
class Payloads {
 public:
  explicit Payloads(const std::string& path) : file_(path, std::ios::binary) {
    if (!file_) throw std::runtime_error("cannot read " + path);
  }

  bool next() {
    uint32_t size = 0;
    if (!file_.read(reinterpret_cast<char*>(&size), sizeof size)) return false;
    bytes.resize(size);
    if (!file_.read(reinterpret_cast<char*>(bytes.data()), size)) throw std::runtime_error("a payload is cut");
    return true;
  }

  std::vector<uint8_t> bytes;

 private:
  std::ifstream file_;
};

std::unique_ptr<Record> record_of(const std::vector<uint8_t>& bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (!ivsim_flat::VerifyCurrentStatusBuffer(verifier)) throw std::runtime_error("a record is no CurrentStatus");
  return ivsim_flat::UnPackCurrentStatus(bytes.data());
}

std::vector<std::unique_ptr<Record>> records(const std::string& path) {
  std::vector<std::unique_ptr<Record>> found;
  for (Payloads payloads(path); payloads.next();) found.push_back(record_of(payloads.bytes));
  return found;
}

#ifdef WITH_FLATBUFFERS
struct Flat {
  static constexpr const char* name = "flatbuffers";

  static std::string build_encode(const Record& record) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(ivsim_flat::CurrentStatus::Pack(builder, &record));
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
  }

  // As the format intends: nothing is decoded, a field is read where it lies.
  static void decode(const std::string& payload) {
    sink = static_cast<double>(ivsim_flat::GetCurrentStatus(payload.data())->header()->sequence_number());
  }

  static void decode_all(const std::string& payload) {
    sink = static_cast<double>(ivsim_flat::UnPackCurrentStatus(payload.data())->lamps.size());
  }

  static void three_fields(const std::string& payload) {
    const auto* status = ivsim_flat::GetCurrentStatus(payload.data());
    const auto* motion = status->motion();
    const auto* combustion = status->combustion();
    double sum = 0;
    if (motion && motion->wheel_speed_average_kmh()) sum += motion->wheel_speed_average_kmh()->value();
    if (combustion && combustion->engine_speed_rpm()) sum += combustion->engine_speed_rpm()->value();
    if (motion && motion->odometer_m()) sum += static_cast<double>(motion->odometer_m()->value());
    sink = sum;
  }
};
#endif

#ifdef WITH_PROTOBUF
struct Proto {
  static constexpr const char* name = "protobuf";

  static std::string build_encode(const Record& record) {
    ivsim::CurrentStatus status;
    copy(record, &status);
    return status.SerializeAsString();
  }

  static ivsim::CurrentStatus parsed(const std::string& payload) {
    ivsim::CurrentStatus status;
    if (!status.ParseFromString(payload)) throw std::runtime_error("a payload is no CurrentStatus");
    return status;
  }

  static void decode(const std::string& payload) {
    sink = static_cast<double>(parsed(payload).header().sequence_number());
  }

  static void decode_all(const std::string& payload) { sink = parsed(payload).lamps_size(); }

  static void three_fields(const std::string& payload) {
    const auto status = parsed(payload);
    sink = status.motion().wheel_speed_average_kmh().value() + status.combustion().engine_speed_rpm().value() +
           static_cast<double>(status.motion().odometer_m().value());
  }
};
#endif

struct Operation {
  const char* format;
  const char* name;
  std::function<void()> call;
};

template <typename Format>
void add(std::vector<Operation>& found, const Record& record, const std::string& payload) {
  found.push_back({Format::name, "build_encode", [&] { sink = Format::build_encode(record).size(); }});
  found.push_back({Format::name, "decode", [&] { Format::decode(payload); }});
  found.push_back({Format::name, "decode_all", [&] { Format::decode_all(payload); }});
  found.push_back({Format::name, "three_fields", [&] { Format::three_fields(payload); }});
}

#if defined(WITH_PROTOBUF) && defined(WITH_FLATBUFFERS)
// The formats take turns in random order within every sample, so that a slow moment hits both.
void times(const std::string& path, int calls, int samples, unsigned seed) {
  std::mt19937 random(seed);
  const auto all = records(path);
  for (size_t message = 0; message < all.size(); ++message) {
    const std::string proto = Proto::build_encode(*all[message]), flat = Flat::build_encode(*all[message]);
    std::vector<Operation> operations;
    add<Proto>(operations, *all[message], proto);
    add<Flat>(operations, *all[message], flat);
    for (int sample = 0; sample < samples; ++sample) {
      std::shuffle(operations.begin(), operations.end(), random);
      for (const auto& operation : operations) {
        const auto began = Clock::now();
        for (int call = 0; call < calls; ++call) operation.call();
        const std::chrono::duration<double, std::nano> took = Clock::now() - began;
        std::printf("%zu %s %s %.2f\n", message, operation.format, operation.name, took.count() / calls);
      }
    }
  }
}

void sizes(const std::string& path) {
  size_t message = 0;
  for (Payloads payloads(path); payloads.next(); ++message) {
    const auto record = record_of(payloads.bytes);
    std::printf("%zu protobuf %zu\n", message, Proto::build_encode(*record).size());
    std::printf("%zu flatbuffers %zu\n", message, Flat::build_encode(*record).size());
  }
}
#else
#ifdef WITH_PROTOBUF
using Only = Proto;
#else
using Only = Flat;
#endif

void write(const std::string& path, const std::string& out) {
  std::ofstream file(out, std::ios::binary);
  for (Payloads payloads(path); payloads.next();) {
    const std::string payload = Only::build_encode(*record_of(payloads.bytes));
    const uint32_t size = static_cast<uint32_t>(payload.size());
    file.write(reinterpret_cast<const char*>(&size), sizeof size).write(payload.data(), size);
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + out);
}

void print_peak() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%ld\n", used.ru_maxrss);
}

void encode(const std::string& path) {
  for (Payloads payloads(path); payloads.next();)
    sink = Only::build_encode(*ivsim_flat::UnPackCurrentStatus(payloads.bytes.data())).size();
  print_peak();
}

void decode(const std::string& path) {
  std::string payload;
  for (Payloads payloads(path); payloads.next();) {
    payload.assign(payloads.bytes.begin(), payloads.bytes.end());
    Only::decode(payload);
  }
  print_peak();
}
#endif

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  try {
#if defined(WITH_PROTOBUF) && defined(WITH_FLATBUFFERS)
    if (given.size() == 5 && given[0] == "times")
      times(given[1], std::stoi(given[2]), std::stoi(given[3]), static_cast<unsigned>(std::stoul(given[4])));
    else if (given.size() == 2 && given[0] == "sizes")
      sizes(given[1]);
#else
    if (given.size() == 3 && given[0] == "write")
      write(given[1], given[2]);
    else if (given.size() == 2 && given[0] == "encode")
      encode(given[1]);
    else if (given.size() == 2 && given[0] == "decode")
      decode(given[1]);
#endif
    else
      throw std::runtime_error("unknown words");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driver: %s\n", error.what());
    return 1;
  }
  return 0;
}
