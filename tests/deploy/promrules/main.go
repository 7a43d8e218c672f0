// promrules asks Prometheus' own code about rules: a request as JSON on standard input, the answer on standard output.
//
//	{"expressions": [...]}                          what each selects, or why it cannot be read
//	{"rules": FILE, "series": "load 1m\n …", "until": "30m"}   the alerts of FILE that fire then
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

type request struct {
	Expressions []string `json:"expressions"`
	Rules       string   `json:"rules"`
	Series      string   `json:"series"`
	Until       string   `json:"until"`
}

type expression struct {
	Error   string              `json:"error,omitempty"`
	Metrics map[string][]string `json:"metrics"`
	Groups  []string            `json:"groups"`
}

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func main() {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	var answer any
	if asked.Rules == "" {
		read := make([]expression, 0, len(asked.Expressions))
		for _, text := range asked.Expressions {
			read = append(read, selected(text))
		}
		answer = read
	} else {
		firing, err := play(asked)
		if err != nil {
			fail(err)
		}
		answer = firing
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "promrules:", err)
	os.Exit(1)
}

// selected is the metrics of an expression, each with the labels it is matched by, and those that are grouped by.
func selected(text string) expression {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return expression{Error: err.Error()}
	}
	metrics, groups := map[string][]string{}, []string{}
	for _, matchers := range parser.ExtractSelectors(tree) {
		name, names := "", []string{}
		for _, matcher := range matchers {
			if matcher.Name == labels.MetricName {
				name = matcher.Value
			} else {
				names = append(names, matcher.Name)
			}
		}
		metrics[name] = append(names, metrics[name]...)
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch part := node.(type) {
		case *parser.AggregateExpr:
			groups = append(groups, part.Grouping...)
		case *parser.BinaryExpr:
			if part.VectorMatching != nil {
				groups = append(groups, part.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	return expression{Metrics: metrics, Groups: groups}
}

// play evaluates the rules every minute while the series go by, and tells what fires at the end.
func play(asked request) ([]alert, error) {
	until, err := time.ParseDuration(asked.Until)
	if err != nil {
		return nil, err
	}
	if _, errs := rulefmt.ParseFile(asked.Rules, false, model.UTF8Validation, parser.NewParser(parser.Options{})); errs != nil {
		return nil, errs[0]
	}
	suite, err := promqltest.NewLazyLoader(asked.Series, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, err
	}
	defer suite.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, asked.Rules)
	if errs != nil {
		return nil, errs[0]
	}
	start := time.Unix(0, 0).UTC()
	for now := start; !now.After(start.Add(until)); now = now.Add(time.Minute) {
		suite.WithSamplesTill(now, func(failed error) {
			err = failed
			for _, group := range groups {
				group.Eval(suite.Context(), now)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	firing := []alert{}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			if rule.LastError() != nil {
				return nil, fmt.Errorf("%s: %w", rule.Name(), rule.LastError())
			}
			for _, active := range rule.(*rules.AlertingRule).ActiveAlerts() {
				if active.State == rules.StateFiring {
					firing = append(firing, alert{active.Labels.Map(), active.Annotations.Map()})
				}
			}
		}
	}
	slices.SortFunc(firing, func(a, b alert) int {
		return slices.Compare([]string{a.Labels["alertname"]}, []string{b.Labels["alertname"]})
	})
	return firing, nil
}
