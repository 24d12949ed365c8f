package cudatest

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"troupe/cuda"
)

// sharedWith is the environment variable that passes shared handles to another process.
const sharedWith = "TROUPE_TEST_SHARED"

const (
	sharedBytes          = 4096
	ofParent, ofReceiver = 11, 12 // patterns
)

// sharedMemory: another process, started from this test, reads and writes memory of this process's
// device.
func sharedMemory(t *testing.T, d cuda.Device) {
	sharer := capability[cuda.Sharer](t, d)
	if text := os.Getenv(sharedWith); text != "" {
		receive(t, d, sharer, text)
		return
	}
	must[cuda.Ptr](t)(d.Alloc(1000)) // so that the shared memory does not start at a page boundary
	s, at, host := stream(t, d), must[cuda.Ptr](t)(d.Alloc(sharedBytes)), hostMemory(t, d, sharedBytes)
	handle, err := sharer.Share(at)
	skipWithout(t, err)
	pattern(host, ofParent)
	noError(t, err, s.CopyIn(at, host), s.Sync())
	self, err := os.Executable()
	noError(t, err)
	child := exec.Command(self, "-test.run=^"+strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^")+"$")
	child.Env = append(os.Environ(), sharedWith+"="+hex.EncodeToString(handle[:]))
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("the other process: %v: %s", err, out)
	}
	want := make([]byte, sharedBytes)
	pattern(want, ofReceiver)
	noError(t, s.CopyOut(host, at), s.Sync())
	if !bytes.Equal(host, want) {
		t.Error("the write of the other process is missing")
	}
	if _, err := sharer.OpenShared(handle, sharedBytes); err == nil {
		t.Error("a process opened its own memory")
	}
	if _, err := sharer.Share(0); err == nil {
		t.Error("memory that is not shared was opened")
	}
}

// receive is the main function of the other process.
func receive(t *testing.T, d cuda.Device, sharer cuda.Sharer, text string) {
	var handle cuda.SharedHandle
	_, err := hex.Decode(handle[:], []byte(text))
	noError(t, err)
	at := must[cuda.Ptr](t)(sharer.OpenShared(handle, sharedBytes))
	s, host, want := stream(t, d), hostMemory(t, d, sharedBytes), make([]byte, sharedBytes)
	pattern(want, ofParent)
	noError(t, s.CopyOut(host, at), s.Sync())
	if !bytes.Equal(host, want) {
		t.Error("the shared content is missing")
	}
	pattern(host, ofReceiver)
	noError(t, s.CopyIn(at, host), s.Sync(), sharer.CloseShared(at))
	if sharer.CloseShared(at) == nil {
		t.Error("closed twice")
	}
}
