// What racecheck follows: each kernel is right by the PTX memory model, and two are reported.
//
//   nvcc -gencode arch=compute_90a,code=sm_90a -o patterns patterns.cu
//   compute-sanitizer --tool racecheck ./patterns
//
// With CUDA 13.0 on an H200, all_meet and every_thread_arrives are clean. part_meets_first was
// reported in one of two builds (512 hazards): after a barrier of some warps, that of all is not
// always followed. a_lane_arrives is reported (2976 hazards): __syncwarp orders the lanes' accesses
// before the arrival of one of them, and an arrival releases what is ordered before it (causality
// order is transitive), but the tool takes it for that lane's alone.
#include <cstdint>
#include <cstdio>

__device__ uint32_t at(void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(count) : "memory");
}
__device__ void arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory");
}
__device__ void wait(uint64_t* b, int parity) {
  asm volatile(
      "{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra L; D:}"
      ::"r"(at(b)), "r"(parity) : "memory");
}

extern __shared__ float tile[];

// Threads 128 to 255 write, all meet at barrier 0, all read; PART: the writers meet by themselves
// before they write.
template <bool PART>
__device__ void meet(float* out) {
  if (threadIdx.x >= 128) {
    if (PART) asm volatile("bar.sync 2, 128;" ::: "memory");
    tile[threadIdx.x - 128] = threadIdx.x;
    tile[threadIdx.x] = threadIdx.x;
  }
  asm volatile("bar.sync 0;" ::: "memory");
  out[threadIdx.x] = tile[255 - threadIdx.x];
}

// Threads 0 to 127 fill two slots in turns, the others read them; LANE: one lane of each warp
// arrives for its warp, else every thread for itself.
template <bool LANE>
__device__ void ring(float* out, int steps) {
  __shared__ uint64_t full[2], freed[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) init(full + s, LANE ? 4 : 128), init(freed + s, LANE ? 4 : 128);
  }
  __syncthreads();
  auto told = [](uint64_t* b) {
    if (LANE) __syncwarp();
    if (!LANE || threadIdx.x % 32 == 0) arrive(b);
  };
  float sum = 0;
  for (int i = 0; i < steps; i++) {
    int s = i & 1, turn = i >> 1 & 1;
    if (threadIdx.x < 128) {
      if (i >= 2) wait(freed + s, turn ^ 1);
      tile[s * 128 + threadIdx.x] = i + threadIdx.x;
      told(full + s);
    } else {
      wait(full + s, turn);
      sum += tile[s * 128 + 255 - threadIdx.x];
      told(freed + s);
    }
  }
  out[threadIdx.x] = sum;
}

__global__ void all_meet(float* out, int) { meet<false>(out); }
__global__ void part_meets_first(float* out, int) { meet<true>(out); }
__global__ void every_thread_arrives(float* out, int steps) { ring<false>(out, steps); }
__global__ void a_lane_arrives(float* out, int steps) { ring<true>(out, steps); }

int main() {
  float* out;
  cudaMalloc(&out, 1024);
  for (auto kernel : {all_meet, part_meets_first, every_thread_arrives, a_lane_arrives}) {
    kernel<<<2, 256, 4096>>>(out, 9);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  }
}
