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
	DOT  bool   `name:"dot" xor:"format" help:"Print Graphviz; pipe it into dot -Tsvg."`
}

func (treeCommand) Help() string {
	return `Every actor of every node is shown with its kind, state, incarnation, restarts, last failure, mailbox depth and messages handled.
A node that does not answer is shown too, with the reason. Where sessions are many, those that run well are folded; --json has them all.

Examples:

  troupe tree
  troupe tree --node b
  troupe tree --nats nats://10.0.0.7:4222
  troupe tree --json | jq '.. | .last_failure? // empty'
  troupe tree --dot | dot -Tsvg > tree.svg`
}

// Run asks a node for the tree and prints it.
func (t treeCommand) Run(c console) error {
	conn, err := t.connect("troupe tree")
	if err != nil {
		return err
	}
	defer conn.Close()
	answer := &messages.TreeResponse{}
	if err := t.request(context.Background(), conn, "tree", &messages.TreeRequest{Format: t.format(), Node: t.Node}, answer); err != nil {
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
