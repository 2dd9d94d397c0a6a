// Command promql says what Prometheus makes of queries: the metrics and labels that they name, by its own parser,
// and what they give over series, by its own engine.
//
// It reads {"load": series as in Prometheus's own tests, "atSeconds": time of the evaluation, "queries": {id: query}}
// and writes {id: answer}.
package main

import (
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

type request struct {
	Load      string            `json:"load"`
	AtSeconds int64             `json:"atSeconds"`
	Queries   map[string]string `json:"queries"`
}

type selector struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

// named are the labels of one `by`, `on`, `group_left`, …, and the metrics that it is applied to.
type named struct {
	Labels  []string `json:"labels"`
	Metrics []string `json:"metrics"`
}

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

type answer struct {
	Error     string     `json:"error,omitempty"`
	Selectors []selector `json:"selectors"`
	Named     []named    `json:"named"`
	Samples   []sample   `json:"samples"`
}

func selectors(node parser.Node) []selector {
	found := []selector{}
	parser.Inspect(node, func(one parser.Node, _ []parser.Node) error {
		if vector, ok := one.(*parser.VectorSelector); ok {
			names := []string{}
			for _, matcher := range vector.LabelMatchers {
				if matcher.Name != "__name__" {
					names = append(names, matcher.Name)
				}
			}
			found = append(found, selector{Metric: vector.Name, Labels: names})
		}
		return nil
	})
	return found
}

func allNamed(node parser.Node) []named {
	found := []named{}
	parser.Inspect(node, func(one parser.Node, _ []parser.Node) error {
		var labels []string
		switch typed := one.(type) {
		case *parser.AggregateExpr:
			labels = typed.Grouping
		case *parser.BinaryExpr:
			if typed.VectorMatching != nil {
				labels = append(append(labels, typed.VectorMatching.MatchingLabels...), typed.VectorMatching.Include...)
			}
		}
		if len(labels) > 0 {
			metrics := []string{}
			for _, selector := range selectors(one) {
				metrics = append(metrics, selector.Metric)
			}
			found = append(found, named{Labels: labels, Metrics: metrics})
		}
		return nil
	})
	return found
}

func evaluate(loader *promqltest.LazyLoader, text string, at time.Time) ([]sample, error) {
	query, err := loader.QueryEngine().NewInstantQuery(loader.Context(), loader.Queryable(), nil, text, at)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(loader.Context())
	if result.Err != nil {
		return nil, result.Err
	}
	samples := []sample{}
	switch value := result.Value.(type) {
	case promql.Vector:
		for _, one := range value {
			samples = append(samples, sample{Labels: one.Metric.Map(), Value: one.F})
		}
	case promql.Scalar:
		samples = append(samples, sample{Value: value.V})
	}
	return samples, nil
}

func answerTo(loader *promqltest.LazyLoader, text string, at time.Time) answer {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	samples, err := evaluate(loader, text, at)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Selectors: selectors(expression), Named: allNamed(expression), Samples: samples}
}

func main() {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	loader, err := promqltest.NewLazyLoader(asked.Load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	at := time.Unix(asked.AtSeconds, 0).UTC()
	answers := map[string]answer{}
	loader.WithSamplesTill(at, func(failed error) {
		if failed != nil {
			log.Fatal(failed)
		}
		for id, text := range asked.Queries {
			answers[id] = answerTo(loader, text, at)
		}
	})
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}
