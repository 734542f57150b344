// Runs a planned model in one block of memory, in a stock ONNX Runtime session.
//
//     memc optimize model.onnx -o planned.onnx --runtime ort --anchors
//     arena planned.onnx planned.layout.json
//
// The session gets an allocator that answers each request with the place which the layout states. A stock
// session keeps dead buffers for later values, and its C and C++ interfaces have no option against that. So
// this program makes every planned value a graph output: the session then requests the bytes of each value
// once, in the order of the plan. Because all values are visible, the program also compares the address of
// each one with its offset.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

using nlohmann::json;

/// Place of a value in the arena: offset and size in bytes, and the step that makes it.
struct Place {
    std::string name;
    ONNXTensorElementDataType type;
    std::vector<int64_t> shape;
    size_t offset, bytes, step;
    bool output;  // whether the given graph has this output
    bool placed;  // else the caller holds it
};

/// Contents of the layout that a session needs.
struct Plan {
    size_t arena = 0, alignment = 64;
    std::vector<Place> values;                     // in the order of their steps
    std::map<size_t, std::vector<Place>> scratch;  // workspace of kernels, by step
    std::map<std::string, Place> inputs;           // of the arena
    std::vector<std::pair<std::string, int>> opsets;
};

/// Returns the element type with this name: types of sessions have the numbers of ONNX.
ONNXTensorElementDataType type_named(const std::string& name) {
    static const char* const names[] = {"",        "float",  "uint8",   "int8",   "uint16", "int16",
                                        "int32",   "int64",  "",        "bool",   "float16", "double",
                                        "uint32",  "uint64", "complex64", "complex128", "bfloat16"};
    const auto found = std::find(std::begin(names), std::end(names), name);
    if (found == std::end(names)) throw std::runtime_error("no session type for " + name);
    return static_cast<ONNXTensorElementDataType>(found - std::begin(names));
}

/// Reads the layout, and refuses plans that a stock session cannot follow.
Plan read_plan(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    const json layout = json::parse(file);
    if (layout.at("schema") != "memc.layout/1") throw std::runtime_error("unknown version of the layout");
    if (layout.at("options").value("runtime", "") != "ort") throw std::runtime_error("plan with --runtime ort");
    if (layout.at("arenas").size() != 1 || !layout.at("transfers").empty() || layout.contains("state"))
        throw std::runtime_error("this program serves one arena, without transfers and state");
    if (!layout.at("unplanned").empty()) throw std::runtime_error("the plan has values of unknown size");
    Plan plan;
    plan.arena = layout["arenas"][0].at("size");
    plan.alignment = std::max(plan.alignment, layout["arenas"][0].at("alignment").get<size_t>());
    for (const json& set : layout.at("model").at("opset_imports"))
        plan.opsets.emplace_back(set.at("domain"), set.at("version"));
    for (const json& tensor : layout.at("tensors")) {
        const std::string kind = tensor.at("class");
        Place place;
        place.output = kind == "output";
        place.placed = !tensor.at("space").is_null();
        if (!place.placed && !place.output) continue;
        place.name = tensor.at("name");
        place.type = type_named(tensor.at("dtype"));
        place.shape = tensor.at("shape").get<std::vector<int64_t>>();
        place.offset = place.placed ? tensor.at("offset").get<size_t>() : 0;
        place.bytes = tensor.at("bytes");
        place.step = tensor.at("live")[0][0];
        if (place.placed && place.offset + place.bytes > plan.arena) throw std::runtime_error(place.name + " is outside the arena");
        if (kind == "input") plan.inputs[place.name] = place;
        else if (kind == "scratch") plan.scratch[place.step].push_back(place);
        else plan.values.push_back(place);
    }
    std::stable_sort(plan.values.begin(), plan.values.end(), [](auto& a, auto& b) { return a.step < b.step; });
    return plan;
}

/// Allocator of the session. A recording run gets its bytes from the heap, a replay from the planned places.
class Arena : public OrtAllocator {
  public:
    explicit Arena(const Plan& plan) : plan_(plan), block_(allocate(plan.arena)) {
        *static_cast<OrtAllocator*>(this) = {};
        version = 17;  // version of the interface: the session then reads none of the newer members
        using Self = OrtAllocator;
        Alloc = [](Self* self, size_t bytes) -> void* { return static_cast<Arena*>(self)->serve(bytes); };
        Free = [](Self* self, void* at) { static_cast<Arena*>(self)->give_back(static_cast<char*>(at)); };
        Info = [](const Self* self) -> const OrtMemoryInfo* { return static_cast<const Arena*>(self)->info_; };
        Reserve = Alloc;
        // Inputs and values without bytes are never requested.
        for (const auto& [name, input] : plan.inputs) peak_ = std::max(peak_, input.offset + input.bytes);
        for (const Place& value : plan.values)
            if (value.bytes == 0) peak_ = std::max(peak_, value.offset);
    }
    ~Arena() { std::free(block_); }
    Arena(const Arena&) = delete;

    char* at(size_t offset) const { return block_ + offset; }
    size_t peak() const { return peak_; }
    size_t outside() const { return outside_; }

    void record() { state_ = State::recording; }
    void replay() { state_ = State::replaying, next_ = 0; }
    void stop() { state_ = State::idle; }

    /// Gives each recorded request its place. `values` are the recorded values: their addresses tell the
    /// requests that made them. All other requests are workspace.
    void match(const std::vector<Ort::Value>& values) {
        for (size_t i = 0; i < values.size(); i++) {
            const Place& value = plan_.values[i];
            if (value.bytes == 0) continue;
            const auto request = recorded_.find(values[i].GetTensorRawData());
            if (request == recorded_.end()) throw std::runtime_error(value.name + " has no bytes of its own");
            Request& made = requests_[request->second];
            made.value = true;
            made.placed = value.placed;
            made.offset = value.offset;
            made.end = value.offset + value.bytes;
            made.step = value.step;
        }
        std::vector<size_t> workspace;
        for (size_t i = 0; i < requests_.size(); i++)
            if (!requests_[i].value) workspace.push_back(i);
        const auto larger = [&](size_t a, size_t b) { return requests_[a].bytes > requests_[b].bytes; };
        std::stable_sort(workspace.begin(), workspace.end(), larger);
        for (const size_t i : workspace) {
            const auto regions = plan_.scratch.find(step_of(i));
            if (regions == plan_.scratch.end()) continue;
            for (const Place& region : regions->second)
                if (!requests_[i].placed) fit(i, region);
        }
    }

  private:
    enum class State { idle, recording, replaying };
    struct Request {
        size_t bytes = 0;
        size_t returned = SIZE_MAX;            // number of requests when the bytes came back
        bool value = false;                    // else workspace
        bool placed = false;
        size_t offset = 0, end = 0, step = 0;  // of a placed request
    };

    /// Returns the step of a workspace: that of the next value if it came while the workspace was in use, or
    /// if the step of the last value plans none.
    size_t step_of(size_t index) const {
        size_t last = index, next = index;
        while (last > 0 && !requests_[last].value) last--;
        while (next + 1 < requests_.size() && !requests_[next].value) next++;
        const bool no_last = !requests_[last].value || plan_.scratch.count(requests_[last].step) == 0;
        const bool ahead = requests_[next].value && (next < requests_[index].returned || no_last);
        return requests_[ahead ? next : last].step;
    }

    /// Places a workspace at the lowest offset of a region that is free while it is in use, if it fits.
    void fit(size_t index, const Place& region) {
        Request& request = requests_[index];
        size_t offset = region.offset;
        for (size_t i = 0; i < requests_.size(); i++) {
            const Request& other = requests_[i];
            const bool together = i < request.returned && index < other.returned;
            if (other.value || !other.placed || !together) continue;
            if (offset >= other.offset + other.bytes || other.offset >= offset + request.bytes) continue;
            offset = (other.offset + other.bytes + plan_.alignment - 1) / plan_.alignment * plan_.alignment;
            i = SIZE_MAX;  // compare with all others again
        }
        if (offset + request.bytes > region.offset + region.bytes) return;
        // Kernels may take less than their planned workspace, which counts as a whole.
        request.placed = true;
        request.offset = offset;
        request.end = region.offset + region.bytes;
    }

    char* allocate(size_t bytes) const {
        const size_t unit = plan_.alignment;
        return static_cast<char*>(std::aligned_alloc(unit, (bytes / unit + 1) * unit));
    }

    char* serve(size_t bytes) {
        if (state_ == State::replaying) {
            const Request request = next_ < requests_.size() ? requests_[next_++] : Request();
            const bool known = request.bytes == bytes;
            if (known && request.placed) {
                peak_ = std::max(peak_, request.end);
                return block_ + request.offset;
            }
            // The caller holds a value without a place.
            if (!known || !request.value) outside_ += bytes;
        }
        char* at = allocate(bytes);
        if (state_ == State::recording) {
            recorded_[at] = requests_.size();
            requests_.emplace_back().bytes = bytes;
        }
        return at;
    }

    void give_back(char* at) {
        if (at >= block_ && at < block_ + plan_.arena) return;
        const auto request = recorded_.find(at);
        if (request != recorded_.end()) {
            if (state_ == State::recording) requests_[request->second].returned = requests_.size();
            recorded_.erase(request);
        }
        std::free(at);
    }

    const Plan& plan_;
    Ort::MemoryInfo info_ = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    char* block_;
    State state_ = State::idle;
    std::vector<Request> requests_;            // of one run, in order
    std::map<const void*, size_t> recorded_;  // indices of requests, by address
    size_t next_ = 0, peak_ = 0, outside_ = 0;
};

/// Creates a session with the options of `memc optimize --session cpp=smallest`, the allocator of the
/// environment, and all planned values as outputs.
Ort::Session create_session(const Ort::Env& env, const char* model, const Plan& plan) {
    Ort::SessionOptions options;
    options.SetGraphOptimizationLevel(GraphOptimizationLevel::ORT_DISABLE_ALL);
    options.SetExecutionMode(ExecutionMode::ORT_SEQUENTIAL);
    options.DisableMemPattern();
    options.DisableCpuMemArena();
    options.AddConfigEntry("session.disable_quant_qdq", "1");
    options.AddConfigEntry("session.use_env_allocators", "1");
    options.SetIntraOpNumThreads(1);  // kernels take more workspace with more threads
    Ort::Session session = Ort::Session::CreateModelEditorSession(env, model, options);
    std::vector<Ort::ValueInfo> outputs;
    for (const Place& value : plan.values) {
        const Ort::TensorTypeAndShapeInfo info(value.type, value.shape);
        outputs.emplace_back(value.name, Ort::TypeInfo::CreateTensorInfo(info.GetConst()).GetConst());
    }
    Ort::Graph graph;
    graph.SetOutputs(outputs);
    Ort::Model edits(plan.opsets);
    edits.AddGraph(graph);
    session.FinalizeModelEditorSession(edits, options, nullptr);
    return session;
}

/// Writes small numbers, which are valid indices too.
void fill(char* at, ONNXTensorElementDataType type, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) reinterpret_cast<float*>(at)[i] = float(i % 17) / 8 - 1;
        if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) reinterpret_cast<int64_t*>(at)[i] = int64_t(i % 2);
    }
}

/// Runs the model, and returns all planned values. Inputs that the plan places lie in `arena`, if it is given.
std::vector<Ort::Value> run(Ort::Session& session, const Plan& plan, const Arena* arena) {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    Ort::AllocatorWithDefaultOptions heap;
    std::vector<std::string> names;
    std::vector<Ort::Value> inputs, storage;
    for (size_t i = 0; i < session.GetInputCount(); i++) {
        names.emplace_back(session.GetInputNameAllocated(i, heap).get());
        const Ort::TypeInfo type = session.GetInputTypeInfo(i);
        const auto info = type.GetTensorTypeAndShapeInfo();
        const auto shape = info.GetShape();
        const auto kind = info.GetElementType();
        storage.push_back(Ort::Value::CreateTensor(heap, shape.data(), shape.size(), kind));
        Ort::Value& own = storage.back();
        const size_t bytes = own.GetTensorSizeInBytes();
        const auto place = plan.inputs.find(names.back());
        const bool placed = arena != nullptr && place != plan.inputs.end();
        char* at = placed ? arena->at(place->second.offset) : static_cast<char*>(own.GetTensorMutableRawData());
        std::memset(at, 0, bytes);
        fill(at, kind, info.GetElementCount());
        inputs.push_back(Ort::Value::CreateTensor(memory, at, bytes, shape.data(), shape.size(), kind));
    }
    std::vector<const char*> in, out;
    for (const std::string& name : names) in.push_back(name.c_str());
    for (const Place& value : plan.values) out.push_back(value.name.c_str());
    return session.Run(Ort::RunOptions{}, in.data(), inputs.data(), in.size(), out.data(), out.size());
}

int run_in_arena(const char* model, const char* layout) {
    const Plan plan = read_plan(layout);
    Arena arena(plan);  // before the environment and the session, which keep its address
    Ort::Env env(ORT_LOGGING_LEVEL_ERROR);
    env.RegisterAllocator(&arena);
    Ort::Session session = create_session(env, model, plan);

    // The requests are equal in every run. A program for a small machine reads them from a file.
    arena.record();
    const std::vector<Ort::Value> expected = run(session, plan, nullptr);
    arena.stop();
    arena.match(expected);

    arena.replay();
    const std::vector<Ort::Value> values = run(session, plan, &arena);
    arena.stop();

    size_t astray = 0, different = 0;
    for (size_t i = 0; i < values.size(); i++) {
        const Place& value = plan.values[i];
        const void* at = values[i].GetTensorRawData();
        astray += value.placed && value.bytes > 0 && at != arena.at(value.offset);
        different += value.output && std::memcmp(at, expected[i].GetTensorRawData(), value.bytes) != 0;
    }
    const bool equal = arena.peak() == plan.arena;
    std::cout << "peak " << arena.peak() << (equal ? " == " : " != ") << "arena " << plan.arena << "\n"
              << values.size() << " values, " << astray << " not in their places; " << arena.outside()
              << " bytes outside the arena; " << different << " outputs differ\n";
    return equal && astray == 0 && arena.outside() == 0 && different == 0 ? 0 : 1;
}

int main(int count, char** words) {
    if (count != 3) {
        std::cerr << "usage: arena MODEL.onnx LAYOUT.json\n";
        return 2;
    }
    try {
        return run_in_arena(words[1], words[2]);
    } catch (const std::exception& error) {
        std::cerr << "arena: " << error.what() << "\n";
        return 2;
    }
}
