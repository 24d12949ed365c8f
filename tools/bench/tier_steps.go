package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/core/kv"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/node"
)

// stepsBeside compares steps during an offload of blocks with steps alone.
func stepsBeside(string) ([]row, error) {
	const blocks = 2048 // blocks of 16 tokens; steps use the first half
	s, err := newKVDevice(max(1, runtime.NumCPU()-1), 16, blocks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	e, err := s.store.Open("bench")
	if err != nil {
		return nil, err
	}
	defer e.Close()
	arena := kvstore.NewArena(s.memory, len(s.memory.Bytes()))
	steps := func() error {
		for i := range stepReps {
			var batch []engine.Sequence
			for j := range streams {
				batch = append(batch, sequence(j, 20+i, 5))
			}
			if _, err := e.Step(context.Background(), batch); err != nil {
				return err
			}
		}
		return nil
	}
	var copied atomic.Int64
	beside := func(many int) func() error {
		return func() error {
			var over atomic.Bool
			var wait sync.WaitGroup
			var failed error
			wait.Go(func() {
				for again := true; again && failed == nil; again = many == 0 && !over.Load() {
					n := max(many, 16)
					failed = kvstore.Offload(context.Background(), s.blocks, arena, moves(blocks/2, n))
					copied.Add(int64(n * s.blocks.BlockBytes()))
				}
			})
			err := steps()
			over.Store(true)
			wait.Wait()
			return errors.Join(err, failed)
		}
	}
	var rows []row
	for _, c := range []struct {
		what string
		many int // blocks per round; 0 means no limit
	}{
		{"as many blocks as the steps fill", stepReps * streams / 16},
		{"an unlimited number of blocks", 0},
	} {
		copied.Store(0)
		with, without, ratio, err := paired(stepRounds, beside(c.many), steps)
		if err != nil {
			return nil, err
		}
		aim, met := "1.05 or less", yesNo(ratio <= 1.05)
		if c.many == 0 {
			aim, met = "", "" // more than is possible: blocks are filled by steps
		}
		rows = append(
			rows,
			row{"step with an offload of " + c.what + " running, over without", fmt.Sprintf(
				"%.3f (%d µs against %d µs, with %.2f GB/s of offload)",
				ratio,
				(with / stepReps).Microseconds(),
				(without / stepReps).Microseconds(),
				float64(copied.Load())/stepRounds/with.Seconds()/1e9,
			), aim, met},
		)
	}
	return rows, nil
}

const firstRounds = 15

// firstTokens compares requests whose prefix is restored with requests whose prefix is recomputed.
func firstTokens(dir string) (rows []row, err error) {
	for _, t := range []struct {
		name  string
		tiers node.TiersConfig
	}{
		{"DRAM", node.TiersConfig{DRAMBytes: 64 << 20}},
		{"NVMe", node.TiersConfig{NVMeBytes: 256 << 20, NVMePath: filepath.Join(dir, "first")}},
	} {
		t.tiers.Restore, t.tiers.Watermark = kv.RestoreAlways, 1
		n, stop, err := nodeWith(func(c *node.Config) { c.Tiers = t.tiers })
		if err != nil {
			return nil, err
		}
		for _, length := range []int{64, 256, 1008} {
			r, err := firstToken(n, t.name, length)
			if err != nil {
				stop()
				return nil, err
			}
			rows = append(rows, r)
		}
		stop()
	}
	return rows, nil
}

func firstToken(n *node.Node, tier string, length int) (row, error) {
	prompt := make([]uint32, length+1)
	for i := range prompt {
		prompt[i] = uint32(3 + (i*7+length)%500)
	}
	flush := func(tier string) error {
		_, err := n.Backend().KV(
			context.Background(),
			&messages.KvNodeRequest{What: &messages.KvNodeRequest_Flush{Flush: &messages.KvFlushRequest{Tier: tier}}},
		)
		return err
	}
	down := func() (uint32, error) {
		moved, err := n.Backend().KV(
			context.Background(),
			&messages.KvNodeRequest{What: &messages.KvNodeRequest_Offload{Offload: &messages.KvOffloadRequest{}}},
		)
		if err != nil || len(moved.GetMoved()) == 0 {
			return 0, err
		}
		return moved.GetMoved()[0].GetBlocks(), nil
	}
	// Repeat until the weights' fingerprint is known.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := first(n, prompt); err != nil {
			return row{}, err
		}
		if blocks, err := down(); blocks > 0 {
			break
		} else if time.Now().After(end) {
			return row{}, fmt.Errorf("no block was offloaded to %s: %w", tier, err)
		}
	}
	var took [2][]time.Duration
	var ratios []float64
	for range firstRounds {
		for i, cached := range []int{length, 0} {
			var err error
			if i == 0 {
				err = flush("hbm")
			} else {
				err = flush("")
			}
			if err != nil {
				return row{}, err
			}
			began := time.Now()
			got, err := first(n, prompt)
			took[i] = append(took[i], time.Since(began))
			if err == nil && got != cached {
				err = fmt.Errorf("%d of %d tokens came from %s, want %d", got, length, tier, cached)
			}
			if err != nil {
				return row{}, err
			}
		}
		ratios = append(ratios, float64(took[0][len(took[0])-1])/float64(took[1][len(took[1])-1]))
		if _, err := down(); err != nil {
			return row{}, err
		}
	}
	ratio := median(ratios)
	return row{fmt.Sprintf("time to first token, %d tokens restored from %s, over computing them", length, tier),
		fmt.Sprintf(
			"%.2f (%.2f ms against %.2f)",
			ratio,
			median(took[0]).Seconds()*1e3,
			median(took[1]).Seconds()*1e3,
		), "less than 1", yesNo(ratio < 1)}, nil
}

// first requests one token and returns the number of cached prompt tokens.
func first(n *node.Node, prompt []uint32) (cached int, err error) {
	body := fmt.Sprintf(
		`{"model":"kjv","prompt":%s,"max_tokens":1,"temperature":0,"ignore_eos":true}`,
		strings.ReplaceAll(fmt.Sprint(prompt), " ", ","),
	)
	res, err := http.Post("http://"+n.HTTPAddr()+"/v1/completions", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var whole struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.NewDecoder(res.Body).Decode(&whole); err != nil || res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d: %w", res.StatusCode, err)
	}
	return whole.Usage.Details.Cached, nil
}
