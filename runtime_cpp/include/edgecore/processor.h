// The kind of processor that the code is compiled for.
#ifndef EDGECORE_PROCESSOR_H_
#define EDGECORE_PROCESSOR_H_

// 1 for Arm's M-profile (microcontrollers), where memory is scarce and has the same speed everywhere; otherwise 0.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define EDGECORE_MICROCONTROLLER 1
#else
#define EDGECORE_MICROCONTROLLER 0
#endif

#endif  // EDGECORE_PROCESSOR_H_
