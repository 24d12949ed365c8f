package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

const treeWithin = 5 * time.Second

type treeCommand struct {
	NATS string `name:"nats" env:"TROUPE_NATS" placeholder:"URL" default:"nats://${nats}" help:"A NATS server that a node is connected to (default: ${default})."`
	Node string `name:"node" placeholder:"NAME" help:"Only this node."`
	JSON bool   `name:"json" xor:"format" help:"Print JSON."`
	DOT  bool   `name:"dot" xor:"format" help:"Print Graphviz; pipe it into dot -Tsvg."`
	login
}

func (treeCommand) Help() string {
	return `Every actor of every node is shown with its kind, state, incarnation, restarts, last failure, mailbox depth and messages handled.
A node that does not answer is shown too, with the reason. Where sessions are many, those that run well are folded; --json has them all.

Examples:

  node tree
  node tree --node b
  node tree --nats nats://10.0.0.7:4222
  node tree --json | jq '.. | .last_failure? // empty'
  node tree --dot | dot -Tsvg > tree.svg`
}

// Run asks a node for its tree and prints it.
func (t treeCommand) Run(c console) error {
	answer, err := t.ask()
	if err != nil {
		return err
	}
	if !t.JSON {
		_, err = fmt.Fprint(c.out, answer.GetText())
		return err
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&messages.TreeResponse{Roots: answer.GetRoots()})
	if err != nil {
		return fmt.Errorf("supervision tree: %w", err)
	}
	out := json.NewEncoder(c.out) // protojson varies its white space on purpose
	out.SetIndent("", "  ")
	return out.Encode(json.RawMessage(raw))
}

func (t treeCommand) ask() (*messages.TreeResponse, error) {
	who, err := t.options()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(t.NATS, append(who, nats.Name("node tree"), nats.Timeout(treeWithin))...)
	if err != nil {
		return nil, fmt.Errorf("no NATS server at %s (%w); start a node with \"node up\", or say where one is with --nats", t.NATS, err)
	}
	defer conn.Close()
	request, err := protojson.Marshal(&messages.TreeRequest{Format: t.format(), Node: t.Node})
	if err != nil {
		return nil, fmt.Errorf("tree request: %w", err)
	}
	reply, err := conn.Request("troupe.v1.tree", request, treeWithin)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("%s is a NATS server, but no node answers there; start one with \"node up\", or name another server with --nats", t.NATS)
	}
	if err != nil {
		return nil, fmt.Errorf("node at %s: %w", t.NATS, err)
	}
	if refusal := reply.Header.Get(micro.ErrorHeader); refusal != "" {
		return nil, fmt.Errorf("node at %s refused: %s", t.NATS, refusal)
	}
	answer := &messages.TreeResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(reply.Data, answer); err != nil {
		return nil, fmt.Errorf("answer of the node at %s: %w", t.NATS, err)
	}
	return answer, nil
}

func (t treeCommand) format() string {
	switch {
	case t.JSON:
		return "json"
	case t.DOT:
		return "dot"
	}
	return "text"
}
