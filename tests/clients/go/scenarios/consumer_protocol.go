package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pattern subscribes with an expression: topics that match are taken as they come.
func pattern(ctx context.Context, topic, group string) error {
	has := make(chan map[string]int, 1)
	has <- map[string]int{}
	change := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			held := <-has
			for name, partitions := range given {
				held[name] += sign * len(partitions)
			}
			has <- held
		}
	}
	holds := func(name string, count int) func() bool {
		return func() bool {
			held := <-has
			defer func() { has <- held }()
			return held[name] == count
		}
	}
	reader, err := client(
		kgo.ServerSideBalancer(), kgo.ConsumerGroup(group), kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+topic+".*"),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(500*time.Millisecond),
		kgo.OnPartitionsAssigned(change(1)), kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1)),
	)
	if err != nil {
		return err
	}
	defer reader.Close()
	polling, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for polling.Err() == nil && !reader.PollFetches(polling).IsClientClosed() {
		}
	}()
	if err := eventually(ctx, "the topic that is there", holds(topic, 4)); err != nil {
		return err
	}
	more := topic + "-more"
	creation := kmsg.NewPtrCreateTopicsRequest()
	created := kmsg.NewCreateTopicsRequestTopic()
	created.Topic, created.NumPartitions, created.ReplicationFactor = more, 2, 1
	creation.Topics = append(creation.Topics, created)
	if answer, err := creation.RequestWith(ctx, reader); err != nil {
		return err
	} else if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return err
	}
	return eventually(ctx, "the topic that came", holds(more, 2))
}

// consumerStatic comes back under its instance id without a new epoch.
func consumerStatic(ctx context.Context, topic, group string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var epochs []int32
	for range 2 {
		one, err := join(ctx, topic, group, kgo.InstanceID("one"), kgo.ServerSideBalancer())
		if err != nil {
			return err
		}
		err = eventually(ctx, "it has all", func() bool { return one.count() == 4 })
		id, epoch := one.GroupMetadata()
		epochs = append(epochs, epoch)
		one.Close()
		if err != nil {
			return err
		}
		// kgo 1.22.2 leaves without its instance id, which Kafka refuses as we do: the place would be taken until the session ends
		if err := away(ctx, group, id, "one"); err != nil {
			return err
		}
	}
	if epochs[0] != epochs[1] {
		return fmt.Errorf("a rebalance for a static member that came back: epochs %v", epochs)
	}
	return nil
}

// away says that a static member goes to come back.
func away(ctx context.Context, group, memberID, instance string) error {
	asking, err := client()
	if err != nil {
		return err
	}
	defer asking.Close()
	leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	leave.Group, leave.MemberID, leave.MemberEpoch, leave.InstanceID = group, memberID, -2, &instance
	answer, err := leave.RequestWith(ctx, asking)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}

// fill writes so many records to a partition; the value is the partition and the number.
func fill(ctx context.Context, topic string, partition int32, count int) error {
	writer, err := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer writer.Close()
	for number := range count {
		value := fmt.Sprintf("%d-%d", partition, number)
		record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
		if err := writer.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func consumer(topic, group string, more ...kgo.Opt) (*kgo.Client, error) {
	return client(append(more,
		kgo.ServerSideBalancer(), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
}

// values polls until so many records were read.
func values(ctx context.Context, reader *kgo.Client, count int) ([]string, []*kgo.Record, error) {
	var found []string
	var records []*kgo.Record
	for len(found) < count {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, nil, fmt.Errorf("%w after %v", err, found)
		}
		fetched.EachRecord(func(record *kgo.Record) {
			found = append(found, string(record.Value))
			records = append(records, record)
		})
	}
	slices.Sort(found)
	return found, records, nil
}

// commits goes on in a second member where the first one committed.
func commits(ctx context.Context, topic, group string) error {
	if err := fill(ctx, topic, 0, 6); err != nil {
		return err
	}
	first, err := consumer(topic, group)
	if err != nil {
		return err
	}
	defer first.Close()
	_, records, err := values(ctx, first, 6)
	if err != nil {
		return err
	}
	if err := first.CommitRecords(ctx, records[3]); err != nil {
		return err
	}
	first.Close()
	second, err := consumer(topic, group)
	if err != nil {
		return err
	}
	defer second.Close()
	found, _, err := values(ctx, second, 2)
	if err == nil && !slices.Equal(found, []string{"0-4", "0-5"}) {
		err = fmt.Errorf("read again: %v", found)
	}
	return err
}

// listeners hear of what moves in order.
func listeners(ctx context.Context, topic, group string) error {
	var lock sync.Mutex
	var heard []string
	told := func() []string {
		lock.Lock()
		defer lock.Unlock()
		return slices.Clone(heard)
	}
	named := func(name string) []kgo.Opt {
		note := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
			return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
				lock.Lock()
				defer lock.Unlock()
				if count := len(given[topic]); count > 0 {
					heard = append(heard, fmt.Sprintf("%s %s %d", name, what, count))
				}
			}
		}
		return []kgo.Opt{
			kgo.OnPartitionsAssigned(note("assigned")), kgo.OnPartitionsRevoked(note("revoked")), kgo.OnPartitionsLost(note("lost")),
		}
	}
	polling, stop := context.WithCancel(ctx)
	defer stop()
	var expected []string
	for _, step := range []struct {
		name  string
		hears []string
	}{
		{"first", []string{"first assigned 4"}},
		{"second", []string{"first revoked 2", "second assigned 2"}},
	} {
		made, err := consumer(topic, group, named(step.name)...)
		if err != nil {
			return err
		}
		defer made.Close()
		go func() {
			for polling.Err() == nil && !made.PollFetches(polling).IsClientClosed() {
			}
		}()
		expected = append(expected, step.hears...)
		if err := eventually(ctx, strings.Join(expected, ", "), func() bool { return len(told()) >= len(expected) }); err != nil {
			return fmt.Errorf("%w; heard: %v", err, told())
		}
	}
	if found := told(); !slices.Equal(found, expected) {
		return fmt.Errorf("expected %v, heard %v", expected, found)
	}
	return nil
}

// pause reads nothing of a partition that is paused, and keeps it.
func pause(ctx context.Context, topic, group string) error {
	reader, err := consumer(topic, group)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := fill(ctx, topic, 0, 1); err != nil {
		return err
	}
	if _, _, err := values(ctx, reader, 1); err != nil {
		return err
	}
	paused := map[string][]int32{topic: {0}}
	reader.PauseFetchPartitions(paused)
	for partition := range int32(2) {
		if err := fill(ctx, topic, partition, 3); err != nil {
			return err
		}
	}
	found, _, err := values(ctx, reader, 3)
	if err != nil {
		return err
	}
	if !slices.Equal(found, []string{"1-0", "1-1", "1-2"}) {
		return fmt.Errorf("while partition 0 is paused: %v", found)
	}
	reader.ResumeFetchPartitions(paused)
	found, _, err = values(ctx, reader, 3)
	if err == nil && !slices.Equal(found, []string{"0-0", "0-1", "0-2"}) {
		err = fmt.Errorf("after the pause: %v", found)
	}
	return err
}
