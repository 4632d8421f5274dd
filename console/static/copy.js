// Buttons that copy.
export {};
