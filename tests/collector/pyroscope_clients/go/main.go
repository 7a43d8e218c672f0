// Program pyroscope-clients asks and sends with the Go clients of Pyroscope: `MODE ADDRESS …`.
// It prints one JSON object.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/pprof"
	"time"

	"connectrpc.com/connect"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"

	"github.com/grafana/pyroscope-go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func main() {
	switch os.Args[1] {
	case "query":
		query(os.Args[2], os.Args[3], os.Args[4:])
	case "push":
		push(os.Args[2], os.Args[3])
	case "sdk":
		profile(os.Args[2], os.Args[3])
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func print(answer any) {
	text, err := json.Marshal(answer)
	check(err)
	fmt.Println(string(text))
}

type signer struct{ user, token string }

func (s signer) RoundTrip(request *http.Request) (*http.Response, error) {
	request.SetBasicAuth(s.user, s.token)
	return http.DefaultTransport.RoundTrip(request)
}

type result struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Answer  json.RawMessage `json:"answer"`
}

func take[Request any, Response any](
	call func(context.Context, *connect.Request[Request]) (*connect.Response[Response], error), given string,
) result {
	request := new(Request)
	check(protojson.Unmarshal([]byte(given), any(request).(proto.Message)))
	response, err := call(context.Background(), connect.NewRequest(request))
	if err != nil {
		return result{Code: connect.CodeOf(err).String(), Message: err.Error()}
	}
	text, err := protojson.Marshal(any(response.Msg).(proto.Message))
	check(err)
	return result{Answer: text}
}

// query calls methods of the querier: each of `calls` is METHOD=JSON. Every one is sent in both forms.
func query(address string, token string, calls []string) {
	client := &http.Client{Transport: signer{"grafana", token}}
	answers := [][]result{}
	for _, options := range [][]connect.ClientOption{{connect.WithSendGzip()}, {connect.WithProtoJSON()}} {
		c := querierv1connect.NewQuerierServiceClient(client, address, options...)
		row := []result{}
		for _, one := range calls {
			method, given, _ := bytes.Cut([]byte(one), []byte("="))
			row = append(row, call(c, string(method), string(given)))
		}
		answers = append(answers, row)
	}
	print(answers)
}

func call(c querierv1connect.QuerierServiceClient, method string, given string) result {
	switch method {
	case "ProfileTypes":
		return take(c.ProfileTypes, given)
	case "LabelNames":
		return take(c.LabelNames, given)
	case "LabelValues":
		return take(c.LabelValues, given)
	case "Series":
		return take(c.Series, given)
	case "SelectSeries":
		return take(c.SelectSeries, given)
	case "SelectMergeStacktraces":
		return take(c.SelectMergeStacktraces, given)
	case "SelectMergeSpanProfile":
		return take(c.SelectMergeSpanProfile, given)
	case "SelectMergeProfile":
		return take(c.SelectMergeProfile, given)
	case "SelectHeatmap":
		return take(c.SelectHeatmap, given)
	case "Diff":
		return take(c.Diff, given)
	case "GetProfileStats":
		return take(c.GetProfileStats, given)
	case "AnalyzeQuery":
		return take(c.AnalyzeQuery, given)
	}
	panic(method)
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func burn(span time.Duration) {
	for end := time.Now().Add(span); time.Now().Before(end); {
		fib(25)
	}
}

func sumCPU(raw []byte) int64 {
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	check(err)
	content, err := io.ReadAll(reader)
	check(err)
	read := &googlev1.Profile{}
	check(proto.Unmarshal(content, read))
	at := -1
	for i, kind := range read.SampleType {
		if read.StringTable[kind.Type] == "cpu" {
			at = i
		}
	}
	sum := int64(0)
	for _, sample := range read.Sample {
		if at >= 0 {
			sum += sample.Value[at]
		}
	}
	return sum
}

// push sends one CPU profile of itself three times: as Protocol Buffers, compressed, and as JSON.
func push(address string, token string) {
	var b bytes.Buffer
	check(pprof.StartCPUProfile(&b))
	burn(time.Second)
	pprof.StopCPUProfile()
	client := &http.Client{Transport: signer{"alloy", token}}
	for _, options := range [][]connect.ClientOption{nil, {connect.WithSendGzip()}, {connect.WithProtoJSON()}} {
		c := pushv1connect.NewPusherServiceClient(client, address, options...)
		labels := []*typesv1.LabelPair{
			{Name: "__name__", Value: "process_cpu"}, {Name: "service_name", Value: "alloy.scraped"},
		}
		series := &pushv1.RawProfileSeries{
			Labels: labels, Samples: []*pushv1.RawSample{{RawProfile: b.Bytes(), ID: "one"}},
		}
		_, err := c.Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{series}}))
		check(err)
	}
	print(map[string]int64{"ns": sumCPU(b.Bytes())})
}

// profile is busy under pyroscope-go with all its profile types.
func profile(address string, token string) {
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "shop.go", ServerAddress: address, BasicAuthUser: "shop", BasicAuthPassword: token,
		Tags: map[string]string{"version": "7", "pod": "shop-1"}, UploadRate: time.Second,
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU, pyroscope.ProfileAllocSpace, pyroscope.ProfileInuseObjects, pyroscope.ProfileGoroutines,
			pyroscope.ProfileMutexCount, pyroscope.ProfileBlockDuration,
		},
	})
	check(err)
	pyroscope.TagWrapper(context.Background(), pyroscope.Labels("endpoint", "/cart"), func(context.Context) {
		burn(3 * time.Second)
	})
	check(profiler.Stop())
}
