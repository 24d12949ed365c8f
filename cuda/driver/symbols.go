//go:build linux

package driver

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// symbol is a function of the library; at is 0 if the library lacks it.
type symbol struct {
	at    uintptr
	name  string
	since string // the CUDA version that introduced it, if it is optional
}

// symbols are the functions in use. Those with a version are optional; the others are required.
type symbols struct {
	Init           symbol `cu:"cuInit"`
	DriverVersion  symbol `cu:"cuDriverGetVersion"`
	ErrorName      symbol `cu:"cuGetErrorName"`
	ErrorString    symbol `cu:"cuGetErrorString"`
	DeviceCount    symbol `cu:"cuDeviceGetCount"`
	DeviceGet      symbol `cu:"cuDeviceGet"`
	DeviceName     symbol `cu:"cuDeviceGetName"`
	DeviceUUID     symbol `cu:"cuDeviceGetUuid_v2"`
	DevicePCI      symbol `cu:"cuDeviceGetPCIBusId"`
	DeviceMemory   symbol `cu:"cuDeviceTotalMem_v2"`
	DeviceFact     symbol `cu:"cuDeviceGetAttribute"`
	ContextRetain  symbol `cu:"cuDevicePrimaryCtxRetain"`
	ContextFlags   symbol `cu:"cuDevicePrimaryCtxSetFlags_v2"`
	ContextRelease symbol `cu:"cuDevicePrimaryCtxRelease_v2"`
	ContextReset   symbol `cu:"cuDevicePrimaryCtxReset_v2"`
	SetContext     symbol `cu:"cuCtxSetCurrent"`

	Alloc      symbol `cu:"cuMemAlloc_v2"`
	Free       symbol `cu:"cuMemFree_v2"`
	Info       symbol `cu:"cuMemGetInfo_v2"`
	HostLock   symbol `cu:"cuMemHostRegister_v2"`
	HostUnlock symbol `cu:"cuMemHostUnregister"`

	StreamCreate  symbol `cu:"cuStreamCreateWithPriority"`
	StreamDestroy symbol `cu:"cuStreamDestroy_v2"`
	StreamQuery   symbol `cu:"cuStreamQuery"`
	StreamSync    symbol `cu:"cuStreamSynchronize"`
	StreamWait    symbol `cu:"cuStreamWaitEvent"`
	EventCreate   symbol `cu:"cuEventCreate"`
	EventDestroy  symbol `cu:"cuEventDestroy_v2"`
	EventRecord   symbol `cu:"cuEventRecord"`
	EventQuery    symbol `cu:"cuEventQuery"`
	EventSync     symbol `cu:"cuEventSynchronize"`
	CopyIn        symbol `cu:"cuMemcpyHtoDAsync_v2"`
	CopyOut       symbol `cu:"cuMemcpyDtoHAsync_v2"`
	Copy          symbol `cu:"cuMemcpyDtoDAsync_v2"`

	LibraryLoad     symbol `cu:"cuLibraryLoadData"`
	LibraryUnload   symbol `cu:"cuLibraryUnload"`
	LibraryKernel   symbol `cu:"cuLibraryGetKernel"`
	KernelAttribute symbol `cu:"cuKernelSetAttribute"`
	Launch          symbol `cu:"cuLaunchKernel"`

	Granularity symbol `cu:"cuMemGetAllocationGranularity" since:"10.2"`
	Reserve     symbol `cu:"cuMemAddressReserve" since:"10.2"`
	Unreserve   symbol `cu:"cuMemAddressFree" since:"10.2"`
	Create      symbol `cu:"cuMemCreate" since:"10.2"`
	Release     symbol `cu:"cuMemRelease" since:"10.2"`
	Map         symbol `cu:"cuMemMap" since:"10.2"`
	Unmap       symbol `cu:"cuMemUnmap" since:"10.2"`
	SetAccess   symbol `cu:"cuMemSetAccess" since:"10.2"`

	CaptureBegin     symbol `cu:"cuStreamBeginCapture_v2" since:"10.1"`
	CaptureEnd       symbol `cu:"cuStreamEndCapture" since:"10.0"`
	GraphInstantiate symbol `cu:"cuGraphInstantiateWithFlags" since:"11.4"`
	GraphLaunch      symbol `cu:"cuGraphLaunch" since:"10.0"`
	GraphDestroy     symbol `cu:"cuGraphDestroy" since:"10.0"`
	GraphExecDestroy symbol `cu:"cuGraphExecDestroy" since:"10.0"`

	PeerReaches symbol `cu:"cuDeviceCanAccessPeer" since:"4.0"`
	PeerEnable  symbol `cu:"cuCtxEnablePeerAccess" since:"4.0"`
	CopyPeer    symbol `cu:"cuMemcpyPeerAsync" since:"4.0"`

	ShareGet   symbol `cu:"cuIpcGetMemHandle" since:"4.1"`
	ShareOpen  symbol `cu:"cuIpcOpenMemHandle_v2" since:"11.0"`
	ShareClose symbol `cu:"cuIpcCloseMemHandle" since:"4.1"`

	Resource    symbol `cu:"cuDeviceGetDevResource" since:"12.4"`
	Split       symbol `cu:"cuDevSmResourceSplitByCount" since:"12.4"`
	Describe    symbol `cu:"cuDevResourceGenerateDesc" since:"12.4"`
	GreenCreate symbol `cu:"cuGreenCtxCreate" since:"12.4"`
	GreenFree   symbol `cu:"cuGreenCtxDestroy" since:"12.4"`
	GreenStream symbol `cu:"cuGreenCtxStreamCreate" since:"12.5"`
	FromGreen   symbol `cu:"cuCtxFromGreenCtx" since:"12.4"`

	// Fake exists only in the library of testkit/fakecuda: its devices report themselves as
	// simulated.
	Fake symbol `cu:"fakecuda_control" since:"never"`
}

// resolve looks up all symbols of a struct and returns the names of required ones that are missing.
func resolve(handle uintptr, symbols any) (missing []string) {
	fields := reflect.ValueOf(symbols).Elem()
	for i := range fields.NumField() {
		tag := fields.Type().Field(i).Tag
		found := symbol{name: tag.Get("cu"), since: tag.Get("since")}
		found.at, _ = purego.Dlsym(handle, found.name)
		if found.at == 0 && found.since == "" {
			missing = append(missing, found.name)
		}
		*fields.Field(i).Addr().Interface().(*symbol) = found
	}
	return missing
}

// open opens a library and resolves its symbols, on one thread: error texts belong to a thread.
func open(path string) (s symbols, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return s, fmt.Errorf("%w: %w", errNoLibrary, err)
	}
	if missing := resolve(handle, &s); len(missing) > 0 {
		return s, fmt.Errorf(
			"%s lacks %s: install a newer NVIDIA driver (CUDA 12.0 or later: 525)",
			path,
			some(missing),
		)
	}
	return s, nil
}

// some lists the first few names.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
