package ivsim.twin;

/**
 * One record of a vehicle's status as the fold takes it.
 *
 * @param epoch the vehicle's epoch, from 0
 * @param sequence the message's number in its epoch, from 1
 * @param receivedAtNs when the gateway had it
 * @param sampledAtNs when the vehicle sampled it, {@link Twin#NONE} for formats without a stamp
 * @param partition where it stands in Kafka
 * @param offset where it stands in its partition
 * @param batch the same for the records of one micro-batch and growing, {@link Twin#NONE} in real time
 * @param head the status' headers as one UTF-8 text
 * @param payload the status, untouched
 */
record Message(
        long epoch,
        long sequence,
        long receivedAtNs,
        long sampledAtNs,
        long partition,
        long offset,
        long batch,
        byte[] head,
        byte[] payload) {}
