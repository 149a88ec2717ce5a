throw new Error('the module is broken');
