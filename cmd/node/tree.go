package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

type treeCommand struct {
	clusterClient
	Node string `name:"node" placeholder:"NAME" help:"Only this node."`
	JSON bool   `name:"json" xor:"format" help:"Print JSON."`
	DOT  bool   `name:"dot" xor:"format" help:"Print Graphviz DOT; pipe it into dot -Tsvg."`
}

func (treeCommand) Help() string {
	return `Prints every actor of every node with its kind, state, incarnation (LIFE), restarts, last failure, mailbox
depth and messages handled, and below each GPU the weights on it with their level, size and users. A node that does
not answer is listed with the reason. Many healthy sessions are folded into one line; --json lists all.

Examples:

  troupe tree
  troupe tree --node b
  troupe tree --nats nats://10.0.0.7:4222
  troupe tree --json | jq '.. | .last_failure? // empty'
  troupe tree --dot | dot -Tsvg > tree.svg`
}

// Run prints the tree of all nodes, or of one.
func (t treeCommand) Run(c console) error {
	conn, err := t.connect("troupe tree")
	if err != nil {
		return err
	}
	defer conn.Close()
	answer := &messages.TreeResponse{}
	request := &messages.TreeRequest{Format: t.format(), Node: t.Node}
	if err := t.request(context.Background(), conn, "tree", request, answer); err != nil {
		return err
	}
	if t.JSON {
		return printJSON(c.out, &messages.TreeResponse{Roots: answer.GetRoots()})
	}
	_, err = fmt.Fprint(c.out, answer.GetText())
	return err
}

// printJSON prints a message with stable white space, which protojson varies on purpose.
func printJSON(w io.Writer, m proto.Message) error {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(json.RawMessage(raw))
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
