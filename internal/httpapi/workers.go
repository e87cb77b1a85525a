package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/headrace/headrace/worker/protocol"
)

func (s *server) registerWorkers(api huma.API) {
	post := func(id, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Tags: []string{"worker protocol"},
			// Results of 256 KiB, in base64, several at a time.
			MaxBodyBytes: 16 << 20, Errors: append([]int{400, 401, 413, 422, 503}, errors...),
		}
	}
	claim := post("worker-claim", protocol.ClaimPath, "Lease up to max jobs, waiting for the first", 404)
	claim.Responses = map[string]*huma.Response{"204": {Description: "No job came in time, and the order is run."}}
	huma.Register(api, claim, s.claim)
	huma.Register(api, post("worker-heartbeat", protocol.HeartbeatPath, "Extend leases and report", 404), s.heartbeat)
	huma.Register(api, post("worker-settle", protocol.SettlePath, "End leases: ack, nack, release, dead or crash", 404), s.settle)
	huma.Register(api, post("worker-permit", protocol.PermitPath, "Take units of a downstream for a running job"), s.permit)
	goodbye := post("worker-goodbye", protocol.GoodbyePath, "Leave: what is still held is released")
	goodbye.DefaultStatus = http.StatusNoContent
	huma.Register(api, goodbye, s.goodbye)
}

type claimInput struct {
	Pool string `path:"pool"`
	Body protocol.ClaimRequest
}

type claimOutput struct {
	Status int
	Body   *protocol.ClaimAnswer
}

func (s *server) claim(ctx context.Context, in *claimInput) (*claimOutput, error) {
	a, err := s.Dispatcher.Claim(ctx, in.Pool, in.Body)
	if err != nil {
		return nil, problemOf(err)
	}
	if len(a.Leases) == 0 && a.Order == protocol.Run {
		return &claimOutput{Status: http.StatusNoContent}, nil
	}
	if a.Leases == nil {
		a.Leases = []protocol.Lease{}
	}
	return &claimOutput{Status: http.StatusOK, Body: &a}, nil
}

func (s *server) heartbeat(ctx context.Context, in *struct{ Body protocol.HeartbeatRequest }) (*struct{ Body protocol.HeartbeatAnswer }, error) {
	a, err := s.Dispatcher.Heartbeat(ctx, in.Body)
	if err != nil {
		return nil, problemOf(err)
	}
	return &struct{ Body protocol.HeartbeatAnswer }{a}, nil
}

func (s *server) settle(ctx context.Context, in *struct{ Body protocol.SettleRequest }) (*struct{ Body protocol.SettleAnswer }, error) {
	// A settlement that has arrived is carried out even when its sender is gone: the work is done.
	a, err := s.Dispatcher.Settle(context.WithoutCancel(ctx), in.Body)
	if err != nil {
		return nil, problemOf(err)
	}
	return &struct{ Body protocol.SettleAnswer }{a}, nil
}

func (s *server) permit(ctx context.Context, in *struct{ Body protocol.PermitRequest }) (*struct{ Body protocol.PermitAnswer }, error) {
	a, err := s.Dispatcher.Permit(ctx, in.Body)
	if err != nil {
		return nil, problemOf(err)
	}
	return &struct{ Body protocol.PermitAnswer }{a}, nil
}

func (s *server) goodbye(ctx context.Context, in *struct {
	Worker string `path:"worker"`
}) (*struct{}, error) {
	if err := s.Dispatcher.Goodbye(context.WithoutCancel(ctx), in.Worker); err != nil {
		return nil, problemOf(err)
	}
	return nil, nil
}
