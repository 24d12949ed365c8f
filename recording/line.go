package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"troupe/core/route"
)

// Version is the version of the form of recordings.
const Version = 1

// Line is a line of a recording. One of its fields is set.
type Line struct {
	Header   *Header   `json:"recording,omitempty"`
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Request  *Request  `json:"request,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	Event    *Event    `json:"event,omitempty"`
	Sample   *Sample   `json:"sample,omitempty"`
	Lost     *Lost     `json:"lost,omitempty"`
	End      *End      `json:"end,omitempty"`
}

// Header is the first line.
type Header struct {
	Version int       `json:"version"`
	Began   time.Time `json:"began"`
	Troupe  string    `json:"troupe"` // version of the program that recorded
}

// Snapshot is what there was at the beginning.
type Snapshot struct {
	Nodes       []Node       `json:"nodes"`
	Deployments []Deployment `json:"deployments"`
	Replicas    []Replica    `json:"replicas"`
	// Profiles are the costs of models on these devices as "troupe calibrate" wrote them, in YAML.
	Profiles []string `json:"profiles,omitempty"`
}

// Node is a node with its devices.
type Node struct {
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"` // of the program
	Devices []Device `json:"devices"`
	Tiers   []Tier   `json:"tiers,omitempty"` // KV tiers below HBM, the fastest first
}

// Tier is a KV tier of a node.
type Tier struct {
	Name      string  `json:"name"`  // "dram", "nvme" or "remote"
	Bytes     int64   `json:"bytes"` // of "remote": in flight from other nodes at most
	Policy    string  `json:"policy,omitempty"`
	Watermark float64 `json:"watermark,omitempty"`
}

// Device is a device of a node.
type Device struct {
	Name        string  `json:"name"`
	Kind        string  `json:"kind"` // such as "NVIDIA H200"
	Software    bool    `json:"software,omitempty"`
	MemoryBytes int64   `json:"memory_bytes"`
	KVReserve   float64 `json:"kv_reserve"` // share of the memory that is kept for KV blocks
	// Switches is how many switches between models had ended, and SwitchSeconds how long they took.
	Switches      uint64  `json:"switches"`
	SwitchSeconds float64 `json:"switch_seconds"`
}

// Deployment is a deployment.
type Deployment struct {
	Name          string `json:"name"`
	Class         string `json:"class"`
	MaxSequences  int    `json:"max_sequences"`
	MaxWaiting    int    `json:"max_waiting"`
	StepTokens    int    `json:"step_tokens"`
	BlockTokens   int    `json:"block_tokens"`
	KVBlocks      int    `json:"kv_blocks"` // 0: as many as fit
	ContextTokens int    `json:"context_tokens"`
	WeightBytes   int64  `json:"weight_bytes"`
	// Spec is the specification as models.get returns it.
	Spec json.RawMessage `json:"spec"`
}

// Replica is a replica, with its totals.
type Replica struct {
	Name         string  `json:"name"`
	Model        string  `json:"model"`
	Node         string  `json:"node"`
	Device       string  `json:"device"`
	State        string  `json:"state"`
	KVBlocks     int     `json:"kv_blocks"`
	KVBlockBytes int64   `json:"kv_block_bytes"`
	KVCached     int     `json:"kv_blocks_cached"` // blocks of cached prefixes
	Steps        uint64  `json:"steps"`
	StepSeconds  float64 `json:"step_seconds"` // time that all steps took
	TokensIn     uint64  `json:"tokens_in"`
	TokensOut    uint64  `json:"tokens_out"`
	TokensCached uint64  `json:"tokens_cached"`
	Preemptions  uint64  `json:"preemptions"`
	Loads        uint64  `json:"loads"`
	AdapterLoads uint64  `json:"adapter_loads"`
}

// Request is a sequence that was requested. Its line is written when it ends.
type Request struct {
	At          float64  `json:"at"` // arrival
	Node        string   `json:"node"`
	ID          string   `json:"id"` // in decisions too
	Model       string   `json:"model"`
	Adapter     string   `json:"adapter,omitempty"` // name and revision
	Client      string   `json:"client,omitempty"`  // hash
	Class       string   `json:"class,omitempty"`
	Prompt      int      `json:"prompt"`               // tokens
	Cached      int      `json:"cached,omitempty"`     // tokens of the prompt that were found in KV blocks
	Output      int      `json:"output"`               // tokens
	MaxOutput   int      `json:"max_output,omitempty"` // tokens that were allowed
	BlockTokens int      `json:"block_tokens,omitempty"`
	Blocks      Hashes   `json:"blocks,omitempty"` // of the full blocks of prompt and output
	TTFT        *float64 `json:"ttft,omitempty"`   // seconds until the first token
	TPOT        *float64 `json:"tpot,omitempty"`   // mean seconds of each further token
	Took        float64  `json:"took"`             // seconds until the end
	End         string   `json:"end"`              // "stop", "length", or Refused
	Reason      string   `json:"reason,omitempty"` // with Refused
}

// Refused is the end of a request that was refused, failed, or whose client left.
const Refused = "refused"

// Decision is a routing decision: what the router saw, and what it chose.
type Decision struct {
	At     float64    `json:"at"`
	Node   string     `json:"node"` // of the router
	ID     string     `json:"id"`   // of the request
	Model  string     `json:"model"`
	Saw    route.View `json:"saw"`
	Choice string     `json:"choice,omitempty"` // replica; empty: refused
	Reason string     `json:"reason,omitempty"` // of the refusal
	Cause  string     `json:"cause,omitempty"`  // why the request was routed again
}

// Event is an event of the cluster, as published at troupe.v1.events.
type Event struct {
	At      float64 `json:"at"`
	Node    string  `json:"node"`
	Kind    string  `json:"kind"` // such as "deployment.scaled"
	Subject string  `json:"subject"`
	Detail  string  `json:"detail,omitempty"`
}

// Sample has the totals of replicas at a time.
type Sample struct {
	At       float64   `json:"at"`
	Replicas []Replica `json:"replicas"`
}

// Lost tells that lines of a node are missing.
type Lost struct {
	At    float64 `json:"at"`
	Node  string  `json:"node"`
	Lines uint64  `json:"lines,omitempty"` // 0: not known
	Why   string  `json:"why"`
}

// End is the last line.
type End struct {
	At       float64   `json:"at"`
	Open     int       `json:"open"`     // sequences that had not ended, and are not in the recording
	Replicas []Replica `json:"replicas"` // with their totals at the end
	Nodes    []Node    `json:"nodes"`
}

// Seconds returns a time as recordings have it: in seconds, rounded to microseconds.
func Seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

// Duration returns a time of a recording.
func Duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// Hashes are the hashes of a prompt's blocks, from its beginning. In JSON each has 16 hexadecimal digits.
type Hashes []uint64

// MarshalJSON implements json.Marshaler.
func (h Hashes) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 2+19*len(h)), '[')
	for i, v := range h {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `"%016x"`, v)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hashes) UnmarshalJSON(text []byte) error {
	var all []string
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*h = make(Hashes, len(all))
	for i, s := range all {
		v, err := strconv.ParseUint(s, 16, 64)
		if err != nil || len(s) != 16 {
			return errors.New("a hash has 16 hexadecimal digits")
		}
		(*h)[i] = v
	}
	return nil
}
