package router

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// TestRefusalKeepsItsSizes checks that a refusal that passes through the router keeps all sizes.
func TestRefusalKeepsItsSizes(t *testing.T) {
	want := &messages.Refused{
		Reason: messages.Reason_REASON_NO_MEMORY, Detail: "full", RetryAfter: durationpb.New(time.Second),
		Memory: &messages.MemoryShortage{Model: "m", Bytes: 1, Used: 2, Total: 3, Reserve: 4, Evictable: 5},
	}
	if got := refused(refusalOf(want)); !proto.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
