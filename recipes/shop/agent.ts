import { type LanguageModel, stepCountIs, ToolLoopAgent, tool } from 'ai';
import { z } from 'zod';

/** The shop as the agent sees it. Each function returns the text that the agent reads. */
export interface Shop {
  findOrders: (email: string) => string;
  cancelOrder: (order: string) => string;
  refundOrder: (order: string, amount: number) => string;
}

export const instructions = [
  'You serve the customers of a shop. First call find_orders with the email of the customer.',
  'Rules: an order can be cancelled while its status is packing. A delivered order can be refunded, in full, ' +
    'within 30 days of its delivery. Change nothing else.',
  'Then answer in one sentence. Begin it with one of three words:',
  '"Done", if you cancelled or refunded: give the number of the order.',
  '"Sorry", if the rules forbid it: give the status, or the days since the delivery.',
  '"Info", if the customer only asked: give the answer.',
].join('\n');

const order = z.string().describe('Number of the order');

export const shopTools = ({ findOrders, cancelOrder, refundOrder }: Shop) => ({
  find_orders: tool({
    description: 'Lists the orders of a customer',
    inputSchema: z.object({ email: z.string() }),
    execute: ({ email }) => findOrders(email),
  }),
  cancel_order: tool({
    description: 'Cancels an order',
    inputSchema: z.object({ order }),
    execute: ({ order }) => cancelOrder(order),
  }),
  refund_order: tool({
    description: 'Pays money back',
    inputSchema: z.object({ order, amount: z.number().describe('In dollars') }),
    execute: ({ order, amount }) => refundOrder(order, amount),
  }),
});

/** The agent: it looks up the orders of the customer, may change one, and answers. */
export const createShopAgent = (model: LanguageModel, shop: Shop) =>
  new ToolLoopAgent({
    model,
    instructions,
    tools: shopTools(shop),
    stopWhen: stepCountIs(4),
    maxOutputTokens: 120,
    // Qwen3 would reason for longer than that.
    reasoning: 'none',
  });
