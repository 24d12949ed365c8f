package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sashabaranov/go-openai"

	"troupe/node"
)

// firstCompletion waits until the deployments serve, then streams a completion of --try by the
// first one. It uses the HTTP API like any client.
func firstCompletion(ctx context.Context, w io.Writer, s settings, node *node.Node) error {
	if err := node.Ready(ctx); err != nil {
		return err
	}
	model := s.Deployments[0].GetName()
	cfg := openai.DefaultConfig("")
	cfg.BaseURL = "http://" + node.HTTPAddr() + "/v1"
	seed := 1
	stream, err := openai.NewClientWithConfig(cfg).CreateCompletionStream(ctx, openai.CompletionRequest{
		Model: model, Prompt: s.Try, MaxTokens: 64, Temperature: 0.8, FrequencyPenalty: 0.5, Seed: &seed,
	})
	if err != nil {
		return fmt.Errorf("complete %q with %s: %w", s.Try, model, err)
	}
	defer stream.Close()
	fmt.Fprintf(w, "%s says:\n\n  %s", model, s.Try)
	defer fmt.Fprint(w, "\n\nServing until Ctrl-C.\n")
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("complete %q with %s: %w", s.Try, model, err)
		}
		for _, choice := range chunk.Choices {
			fmt.Fprint(w, choice.Text)
		}
	}
}
