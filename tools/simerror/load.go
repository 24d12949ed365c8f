package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"troupe/workload"
)

const (
	deployed = "kjv"
	kvBlocks = 512

	// Tokens of prompts are from firstToken to below lastToken, which excludes special ones.
	firstToken, lastToken = 16, 1000
)

// warm sends a few requests to each node, so that the first recorded ones find everything open.
func (c *cluster) warm(ctx context.Context, model string) error {
	for i := range 4 * len(c.to) {
		err := c.complete(ctx, c.to[i%len(c.to)], workload.Request{Model: model, Prompt: 8, Output: 4}, 1<<40+i)
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends requests at their times, to one node after the other, and waits for the answers.
func (c *cluster) send(ctx context.Context, requests []workload.Request) error {
	began := time.Now()
	failed := make(chan error, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(began.Add(r.At))):
		}
		all.Go(func() {
			if err := c.complete(ctx, c.to[i%len(c.to)], r, i); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		return errors.Join(err, fmt.Errorf("%d requests failed", len(failed)+1))
	}
	return nil
}

// complete sends a request to a node.
func (c *cluster) complete(ctx context.Context, at string, r workload.Request, number int) error {
	model := cmp.Or(r.Model, deployed)
	if r.Adapter != "" {
		model += ":" + r.Adapter
	}
	body, err := json.Marshal(map[string]any{
		"model": model, "prompt": tokens(r, number), "max_tokens": r.Output, "ignore_eos": true, "temperature": 0,
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return err
}

// tokens returns the tokens of a prompt: blocks with the same hash have the same ones.
func tokens(r workload.Request, number int) []uint32 {
	all := make([]uint32, 0, r.Prompt)
	add := func(seed uint64, n int) {
		random := rand.New(rand.NewPCG(seed, 0))
		for range n {
			all = append(all, firstToken+random.Uint32N(lastToken-firstToken))
		}
	}
	for _, h := range r.Prefix {
		if len(all)+r.PrefixBlock <= r.Prompt {
			add(h, r.PrefixBlock)
		}
	}
	add(^uint64(number), r.Prompt-len(all))
	return all
}
