package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
	"troupe/testkit"
)

// TestNVMeBlocksSurviveKill kills a node while it writes blocks to its disk. The next node with
// that file recovers the intact blocks, restores them instead of recomputing, and gives the same
// answers.
func TestNVMeBlocksSurviveKill(t *testing.T) {
	data := t.TempDir()
	options := []string{"--kv-dram", "0", "--kv-nvme", "24MiB"}
	first, url := startNode(t, data, options...)
	ask(t, url, "troupe.v1.models.deploy", `{"deployment": {"name": "kjv", "path": "`+testkit.Model()+`"}}`)
	serves(t, url)
	var texts [8]string
	for i := range texts {
		texts[i], _ = complete(t, url, i)
	}
	eventually(t, func() string { return ask(t, url, "troupe.v1.kv.offload", "") },
		`"replica":"kjv-0"`) // refused until the replica has fingerprinted its weights
	whole := nvmeStatus(t, url).GetResident()
	writing := startLoad(t, url)
	for nvmeStatus(t, url).GetArrivals() < uint64(whole)+20 { // blocks are being written
		<-time.After(time.Millisecond)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	writing()
	_, url = startNode(t, data, options...)
	serves(t, url)
	if found := nvmeStatus(t, url).GetResident(); found < whole {
		t.Errorf("recovered %d blocks, want at least %d", found, whole)
	}
	for i := range texts { // force a restore: otherwise recomputing may be chosen
		var up messages.KvRestoreResponse
		answer := eventually(t, func() string {
			return ask(t, url, "troupe.v1.kv.restore", fmt.Sprintf(`{"model": "kjv", "prompt": %q}`, prompt(i)))
		}, `"replica":"kjv-0"`)
		if err := protojson.Unmarshal([]byte(answer), &up); err != nil || len(up.GetMoved()) != 1 ||
			up.GetMoved()[0].GetBlocks()+up.GetMoved()[0].GetPresent() < 3 {
			t.Errorf("prompt %d: %s", i, answer)
		}
	}
	for i, want := range texts {
		if got, cached := complete(t, url, i); got != want || cached < 48 {
			t.Errorf("prompt %d: %q with %d tokens cached, want %q", i, got, cached, want)
		}
	}
	if s := nvmeStatus(t, url); s.GetHits() < 3 || s.GetDamaged() > 0 {
		t.Errorf("%v", s)
	}
	shown := runCommand(t, "kv", "--nats", url)
	for _, want := range []string{"/nvme ", "/nvme → hbm", "kjv-0", "past the page cache"} {
		if !strings.Contains(shown, want) && !strings.Contains(shown, "no O_DIRECT") {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	text := runCommand(t, "kv", "--json", "--nats", url)
	if err := protojson.Unmarshal([]byte(text), &messages.KvStatsResponse{}); err != nil {
		t.Error(err, text)
	}
}

// prompt returns the i-th of some long prompts.
func prompt(i int) string {
	return fmt.Sprintf("In the days of king %d %s", i,
		strings.Repeat("the children of Israel went up from the land of Egypt, ", 4))
}

// complete requests a completion of prompt i, and returns its text and the number of cached prompt
// tokens.
func complete(t *testing.T, url string, i int) (text string, cached int) {
	t.Helper()
	var c struct {
		Choices []struct{ Text string }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	answer := ask(
		t,
		url,
		"troupe.v1.infer.kjv",
		fmt.Sprintf(`{"prompt": %q, "max_tokens": 8, "temperature": 0, "ignore_eos": true, "stream": false}`,
			prompt(i)),
	)
	if err := json.Unmarshal([]byte(answer), &c); err != nil || len(c.Choices) != 1 {
		t.Fatal(answer)
	}
	return c.Choices[0].Text, c.Usage.Details.Cached
}

// nvmeStatus returns the status of the NVMe tier of the only node.
func nvmeStatus(t *testing.T, url string) *messages.SlotsStatus {
	t.Helper()
	var s messages.KvStatsResponse
	if err := protojson.Unmarshal([]byte(ask(t, url, "troupe.v1.kv.stats", "")), &s); err != nil ||
		len(s.GetNodes()[0].GetTiers()) != 2 {
		t.Fatal(&s, err)
	}
	return s.GetNodes()[0].GetTiers()[0].GetSlots()
}

// startLoad makes a node compute and write other blocks until it is gone. The returned function
// waits for that.
func startLoad(t *testing.T, url string) (end func()) {
	t.Helper()
	conn, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var all sync.WaitGroup
	for writer := range 2 {
		all.Go(func() {
			for n := 0; ; n++ {
				other := strings.Repeat(fmt.Sprintf("%d begat %d, ", writer, n), 12)
				_, err := conn.Request("troupe.v1.infer.kjv",
					fmt.Appendf(nil, `{"prompt": %q, "max_tokens": 2, "stream": false}`, other), 5*time.Second)
				if err == nil {
					_, err = conn.Request("troupe.v1.kv.offload", nil, 5*time.Second)
				}
				if err != nil && !errors.Is(err, nats.ErrTimeout) { // the node is gone
					return
				}
			}
		})
	}
	return func() { conn.Close(); all.Wait() }
}
