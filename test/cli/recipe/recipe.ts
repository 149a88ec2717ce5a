/** How `npm start` describes itself. */
export const recipe = {
  command: 'npm start --',
  description: 'Trains a support agent.',
  defaults: { steps: 120, groups: 12, rolloutsPerGroup: 8, baseModel: 'martingale-tiny' },
  talkCommand: 'npx tsx recipes/desk/talk.ts',
};
