// What racecheck follows: each kernel is right by the PTX memory model, and five are reported.
//
//   nvcc -gencode arch=compute_90a,code=sm_90a -o patterns patterns.cu
//   compute-sanitizer --tool racecheck ./patterns
//
// With CUDA 13.0 on an H200, the same in each of three runs of two builds:
//
//   part_meets_first            reported: after a barrier of some warps, the tool does not see that
//   part_first_and_a_lane_late  of all. all_meet and a_lane_comes_late, without the first of the
//                               two, are clean.
//   a_lane_arrives              reported: __syncwarp orders the lanes' accesses before the arrival
//   copies_arrive_and_a_lane    of one of them, and an arrival releases what is ordered before it
//                               (causality order is transitive), but the tool takes it for that
//                               lane's alone: 992 hazards of 1024 accesses, 31 lanes of 32.
//                               every_thread_arrives and copies_arrive are clean.
//   a_block_is_told             reported for as good as every store, of a block that "might have
//                               already exited": the tool follows barriers of the cluster alone
//                               (the_cluster_meets is clean), not the arrivals that the block
//                               waits for before it ends.
#include <cstdint>
#include <cstdio>

__device__ uint32_t at(void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(count) : "memory");
}
__device__ void arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory");
}
__device__ void arrive_when_copied(uint64_t* b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(b)) : "memory");
}
__device__ void wait(uint64_t* b, int parity) {
  asm volatile(
      "{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra L; D:}"
      ::"r"(at(b)), "r"(parity) : "memory");
}

extern __shared__ float tile[];

// Threads 128 to 255 write, all meet at barrier 0, all read. PART: the writers meet by themselves
// before they write. LATE: thread 0 comes to barrier 0 long after the rest of its warp, once a
// writer has told it.
template <bool PART, bool LATE>
__device__ void meet(float* out) {
  __shared__ uint64_t told;
  if (LATE) {
    if (threadIdx.x == 0) init(&told, 1);
    __syncthreads();
  }
  if (threadIdx.x >= 128) {
    if (LATE && threadIdx.x == 128) __nanosleep(2000), arrive(&told);
    if (PART) asm volatile("bar.sync 2, 128;" ::: "memory");
    tile[threadIdx.x - 128] = threadIdx.x;
    tile[threadIdx.x] = threadIdx.x;
  } else if (LATE && threadIdx.x == 0) {
    wait(&told, 0);
  }
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}

// Threads 0 to 127 fill two slots in turns, the others read them; LANE: one lane of each warp
// arrives for its warp, else every thread for itself. COPY: they fill them by cp.async, which
// arrives by itself.
template <bool LANE, bool COPY>
__device__ void ring(float* out, int steps) {
  __shared__ uint64_t full[2], freed[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) {
      init(full + s, LANE && !COPY ? 4 : 128);
      init(freed + s, LANE ? 4 : 128);
    }
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
      float* mine = tile + s * 128 + threadIdx.x;
      if (i >= 2) wait(freed + s, turn ^ 1);
      if (COPY) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     ::"r"(at(mine)), "l"(out + 256 + threadIdx.x) : "memory");
        arrive_when_copied(full + s);
      } else {
        *mine = i + threadIdx.x;
        told(full + s);
      }
    } else {
      wait(full + s, turn);
      sum += tile[s * 128 + 255 - threadIdx.x];
      told(freed + s);
    }
  }
  out[threadIdx.x] = sum;
}

// Block 1 of a cluster writes into block 0, which reads it and ends. MEET: after a barrier of the
// cluster, else after an arrival of each thread that wrote.
template <bool MEET>
__device__ void give(float* out) {
  __shared__ uint64_t come;
  uint32_t rank, there, bell;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    init(&come, 256);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  auto meet = [] {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  };
  meet();
  if (rank == 1) {
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(at(tile + threadIdx.x)));
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(bell) : "r"(at(&come)));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(1.0f) : "memory");
    if (!MEET)
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bell)
                   : "memory");
  }
  if (MEET) meet();
  if (rank == 0) {
    if (!MEET)
      asm volatile(
          "{.reg .pred p; L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;"
          "@p bra D; bra L; D:}" ::"r"(at(&come)) : "memory");
    out[threadIdx.x] = tile[255 - threadIdx.x];
  }
}

#define KERNEL(NAME, ...) __global__ void NAME(float* out, int steps) { __VA_ARGS__; }
KERNEL(all_meet, meet<false, false>(out))
KERNEL(part_meets_first, meet<true, false>(out))
KERNEL(a_lane_comes_late, meet<false, true>(out))
KERNEL(part_first_and_a_lane_late, meet<true, true>(out))
KERNEL(every_thread_arrives, ring<false, false>(out, steps))
KERNEL(a_lane_arrives, ring<true, false>(out, steps))
KERNEL(copies_arrive, ring<false, true>(out, steps))
KERNEL(copies_arrive_and_a_lane, ring<true, true>(out, steps))
KERNEL(__cluster_dims__(2) the_cluster_meets, give<true>(out))
KERNEL(__cluster_dims__(2) a_block_is_told, give<false>(out))

int main() {
  float* out;
  cudaMalloc(&out, 4096);
  struct { const char* name; void (*kernel)(float*, int); int blocks; } all[] = {
      {"all_meet", all_meet, 2}, {"part_meets_first", part_meets_first, 2},
      {"a_lane_comes_late", a_lane_comes_late, 2},
      {"part_first_and_a_lane_late", part_first_and_a_lane_late, 2},
      {"every_thread_arrives", every_thread_arrives, 2}, {"a_lane_arrives", a_lane_arrives, 2},
      {"copies_arrive", copies_arrive, 2},
      {"copies_arrive_and_a_lane", copies_arrive_and_a_lane, 2},
      {"the_cluster_meets", the_cluster_meets, 200}, {"a_block_is_told", a_block_is_told, 200}};
  for (auto& one : all) {
    one.kernel<<<one.blocks, 256, 4096>>>(out, 9);
    printf("%s: %s\n", one.name, cudaGetErrorString(cudaDeviceSynchronize()));
    fflush(stdout);
  }
}
