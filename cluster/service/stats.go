package service

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// endpoint is an endpoint and its statistics.
type endpoint struct {
	info micro.EndpointInfo

	mu    sync.Mutex
	stats micro.EndpointStats // guarded by mu
}

// handled counts a request whose handler has returned.
func (e *endpoint) handled(took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.NumRequests++
	e.stats.ProcessingTime += took
	e.stats.AverageProcessingTime = e.stats.ProcessingTime / time.Duration(e.stats.NumRequests)
}

// failed counts a request that was answered with an error.
func (e *endpoint) failed(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.NumErrors++
	e.stats.LastError = text
}

func (e *endpoint) snapshot() *micro.EndpointStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.stats
	now.Name, now.Subject, now.QueueGroup = e.info.Name, e.info.Subject, e.info.QueueGroup
	return &now
}

func (s *Service) identity() micro.ServiceIdentity {
	return micro.ServiceIdentity{Name: s.Name, ID: s.id, Version: s.Version, Metadata: s.Metadata}
}

// Info describes the service and its endpoints.
func (s *Service) Info() micro.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := micro.Info{
		ServiceIdentity: s.identity(), Type: micro.InfoResponseType, Description: s.Description,
		Endpoints: []micro.EndpointInfo{},
	}
	for _, e := range s.endpoints {
		info.Endpoints = append(info.Endpoints, e.info)
	}
	return info
}

// Stats returns the number of requests and errors of each endpoint, and the time that its handlers
// took.
func (s *Service) Stats() micro.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := micro.Stats{
		ServiceIdentity: s.identity(), Type: micro.StatsResponseType, Started: s.started,
		Endpoints: []*micro.EndpointStats{},
	}
	for _, e := range s.endpoints {
		stats.Endpoints = append(stats.Endpoints, e.snapshot())
	}
	return stats
}
